//! Closed sets of words.
//!
//! A word from outside the set counts as absent and is reported: the reference
//! ignores it in the same way, and a newer program may know more words.

/// Defines an enum whose values travel as fixed words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$attr])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// The value this word stands for, in exactly this spelling.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "enum": [$($word),*],
                    "x-tidepool-kind": "word",
                })
            }
        }

        impl $crate::metadata::Wire for $name {
            fn parse(text: &str) -> (Option<Self>, Vec<$crate::finding::Finding>) {
                let value = Self::from_word(text);
                let is_unknown = value.is_none() && !text.is_empty();
                let finding = is_unknown.then(|| {
                    $crate::shape::unknown_word(text, &[$($word),*])
                });
                (value, finding.into_iter().collect())
            }

            fn print(&self) -> String {
                self.as_str().to_owned()
            }
        }
    };
}
pub(crate) use words;
