//! JSON objects in labels and annotations.
//!
//! All of them are read and written by one rule: every field may be missing,
//! and what is absent, empty or false is not written. Numbers are, zero too.

use std::collections::BTreeMap;

use units::CpuSet;

/// Is there nothing to write?
pub(crate) trait Absent {
    fn is_absent(&self) -> bool;
}

macro_rules! absent {
    ($([$($generic:ident)*] $type:ty: $is_absent:expr;)*) => {$(
        impl<$($generic),*> Absent for $type {
            fn is_absent(&self) -> bool {
                $is_absent(self)
            }
        }
    )*};
}

absent! {
    [T] Option<T>: Option::is_none;
    [T] Vec<T>: Vec::is_empty;
    [K V] BTreeMap<K, V>: BTreeMap::is_empty;
    [] String: String::is_empty;
    [] CpuSet: CpuSet::is_empty;
    [] bool: |value: &bool| !value;
    [] i32: |_| false;
}

/// Defines such objects. Field names are camel case on the wire unless renamed.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            $(
                $(#[$attr])*
                #[serde(skip_serializing_if = "crate::metadata::record::Absent::is_absent")]
                pub $field: $type,
            )*
        }

        $crate::metadata::json_wire!($name);
    )*};
}
pub(crate) use records;
