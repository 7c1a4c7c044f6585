//! What if an object has no `spec`?
//!
//! Every kind was accepted without one, and the reference reads that as an empty `spec`. The type
//! that kube derives insists on the field, so the `spec` type itself takes its absence, the way
//! an `Option` does.

/// Implements reading and writing of a `spec` type that derives its code with
/// `#[serde(remote = "Self")]`, such that an absent one is the default.
macro_rules! absent_is_default {
    ($spec:ident) => {
        impl ::serde::Serialize for $spec {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                $spec::serialize(self, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $spec {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                struct Visitor;

                impl<'de> ::serde::de::Visitor<'de> for Visitor {
                    type Value = $spec;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_none<E>(self) -> ::std::result::Result<$spec, E> {
                        Ok($spec::default())
                    }

                    fn visit_some<D: ::serde::Deserializer<'de>>(
                        self,
                        deserializer: D,
                    ) -> ::std::result::Result<$spec, D::Error> {
                        $spec::deserialize(deserializer)
                    }
                }

                deserializer.deserialize_option(Visitor)
            }
        }
    };
}

pub(super) use absent_is_default;
