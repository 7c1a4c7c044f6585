//! What is known to be missing.

/// Cases that the embedded server fails, and why. A case that passes must leave the list.
pub(crate) const KNOWN_GAPS: &[(&str, &str)] = &[
    ("admission: a broken webhook fails the request", "the message quotes the code, not the body"),
    ("admission: an update shows both states", "a patch is announced with PatchOptions"),
    ("create: a cluster object has no namespace", "new nodes get no not-ready taint"),
    ("create: the version in the body must fit the path", "another message for an unknown version"),
    ("custom: an object is served in every version", "the warning names no newer version"),
    ("delete: a malformed body of a deletion keeps the object", "a wrong type is ignored: deletes"),
    ("delete: a wrong revision keeps the object", "the message says configmaps, not ConfigMap"),
    ("delete: a wrong uid keeps the object", "the message says configmaps, not ConfigMap"),
    ("delete: an owner reference needs its parts", "the message repeats the field"),
    ("errors: a path that climbs is not followed", "400 instead of 404"),
    ("errors: metadata must be an object", "another message"),
    ("namespaces: a collection of namespaces cannot be deleted", "the verb is offered"),
    ("options: a strict patch refuses unknown fields", "400 instead of 422"),
    ("patch: a patch cannot change the uid", "409 instead of 422"),
    ("patch: a patch of the wrong type is refused", "another message"),
    ("patch: json patch tests", "the refusal carries a cause, which kubectl shows"),
    ("read: a head is not offered", "HEAD is answered"),
    ("read: a list from the future is refused", "the message lacks its prefix"),
    ("read: a list names its items in order and says when", "items carry kind and apiVersion"),
    ("read: an unknown resource is not found", "plain text instead of a Status"),
    ("read: zero with an exact match is refused", "the message is spelled differently"),
    ("select: a selector that cannot be read is refused", "the message is spelled differently"),
    ("select: an unknown field is refused", "another message"),
    ("shapes: a form nobody speaks is refused", "another message"),
    ("shapes: a table can hold no objects", "object is absent instead of null"),
    ("subresources: a binding needs a node", "422 instead of 500"),
    ("watch: a finalizer makes a deletion two events", "the last state has lost its finalizer"),
    ("watch: a get of one object does not become a watch", "it does"),
    ("watch: a revision that is no number is refused", "400 instead of 500"),
    ("watch: a watch can be a table", "later events have an empty list of columns, not null"),
];

/// Sessions and commands whose output differs, and why.
pub(crate) const KUBECTL_GAPS: &[(&str, &str, &str)] = &[
    (
        "cluster",
        "$ kubectl get node {ns} -o jsonpath='{.spec.taints[*].key}'",
        "new nodes get no not-ready taint",
    ),
    ("cluster", "$ kubectl get sa robot", "the table still counts secrets"),
    (
        "more",
        r#"$ kubectl patch deployment d --type=json -p '[{"op":"test","path":"/spec/replicas","value":9}]'"#,
        "the refusal of a JSON patch carries a cause",
    ),
];
