//! What every integer with a unit can do: add, subtract, compare, travel as a JSON integer.
//!
//! One macro, so that the units behave alike and still cannot be mixed: milli-cores plus bytes
//! does not compile.

/// Gives a tuple struct around `i64` saturating sums, serde as a plain integer and the schema of
/// one.
macro_rules! amount {
    ($name:ident) => {
        impl $name {
            pub const ZERO: Self = Self(0);

            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl From<i64> for $name {
            fn from(value: i64) -> Self {
                Self(value)
            }
        }

        impl From<$name> for i64 {
            fn from(amount: $name) -> Self {
                amount.0
            }
        }

        /// Saturates.
        impl std::ops::Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        /// Saturates.
        impl std::ops::Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl std::ops::SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
                amounts.fold(Self::ZERO, std::ops::Add::add)
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
                schemars::json_schema!({ "type": "integer", "format": "int64" })
            }
        }
    };
}

pub(crate) use amount;
