//! What is known to be missing.

/// Cases that the embedded server fails, and why. A case that passes must leave the list.
pub(crate) const KNOWN_GAPS: &[(&str, &str)] = &[];

/// Sessions and commands whose output differs, and why.
pub(crate) const KUBECTL_GAPS: &[(&str, &str, &str)] = &[];
