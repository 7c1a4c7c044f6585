//! Every name on the wire, once.
//!
//! | file | names |
//! |---|---|
//! | [`pod`], [`gang`], [`quota`], [`reservation`], [`eviction`] | labels and annotations around pods |
//! | [`node`], [`topology`], [`device`] | labels and annotations around machines |
//! | [`object`] | labels and annotations on other objects |
//! | [`resource`] | resource names |
//! | [`name`], [`endpoint`], [`webhook`], [`event`] | objects, leases, ports, paths, admission, reasons |
//! | [`gate`], [`metric`] | feature gates and Prometheus metrics |
//!
//! A label or annotation is a [`Key`](crate::metadata::Key): its name, its
//! place and the type of its value. Comments say who writes it (W), who reads
//! it (R) where that is not obvious, and what happens to a value that cannot
//! be read. Odd spellings are the wire's and have a comment of their own.

pub mod device;
pub mod endpoint;
pub mod event;
pub mod eviction;
pub mod gang;
pub mod gate;
pub mod metric;
pub mod name;
pub mod node;
pub mod object;
pub mod pod;
pub mod quota;
pub mod reservation;
pub mod resource;
pub mod topology;
pub mod webhook;

/// Defines keys, one constant each, and `ALL` with their places and names.
macro_rules! keys {
    ($($(#[$doc:meta])* $place:ident $id:ident: $value:ty = $name:literal;)*) => {
        $(
            $(#[$doc])*
            pub const $id: $crate::metadata::Key<$value> = $crate::metadata::Key::$place($name);
        )*

        /// Every key of this file.
        pub const ALL: &[($crate::metadata::Place, &str)] = &[$(($id.place, $id.name)),*];
    };
}
use keys;
