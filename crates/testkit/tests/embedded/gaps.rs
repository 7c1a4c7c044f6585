//! What is known to be missing.

/// Cases that the embedded server fails, and why. A case that passes must leave the list.
pub(crate) const KNOWN_GAPS: &[(&str, &str)] = &[
    ("admission: a broken webhook fails the request", "the message quotes the code, not the body"),
    ("admission: an update shows both states", "a patch is announced with PatchOptions"),
    ("custom: an object is served in every version", "the warning names no newer version"),
    ("delete: a malformed body of a deletion keeps the object", "a wrong type is ignored: deletes"),
    ("delete: an owner reference needs its parts", "the message repeats the field"),
    ("errors: a path that climbs is not followed", "400 instead of 404"),
    ("options: a strict patch refuses unknown fields", "400 instead of 422"),
    ("read: a head is not offered", "HEAD is answered"),
    ("read: a list names its items in order and says when", "items carry kind and apiVersion"),
    ("select: a selector that cannot be read is refused", "the message is spelled differently"),
    ("watch: a finalizer makes a deletion two events", "the last state has lost its finalizer"),
    ("watch: a watch can be a table", "later events have an empty list of columns, not null"),
];

/// Sessions and commands whose output differs, and why.
pub(crate) const KUBECTL_GAPS: &[(&str, &str, &str)] = &[];
