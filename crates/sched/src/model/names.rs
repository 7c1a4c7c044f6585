//! One number for each string ever seen.
//!
//! Names are never forgotten: what is interned are label keys and values, namespaces, node and
//! resource names, of which a cluster has a bounded set. Pod names and uids are not.

use std::collections::HashMap;
use std::sync::Arc;

/// An interned string; equal symbols of one [`Names`] are equal strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

/// The table behind the symbols.
#[derive(Debug, Default)]
pub struct Names {
    symbols: HashMap<Arc<str>, Symbol>,
    strings: Vec<Arc<str>>,
}

impl Names {
    pub fn intern(&mut self, name: &str) -> Symbol {
        if let Some(symbol) = self.symbols.get(name) {
            return *symbol;
        }
        let symbol = Symbol(u32::try_from(self.strings.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        self.strings.push(Arc::clone(&name));
        self.symbols.insert(name, symbol);
        symbol
    }

    /// The symbol of a string somebody interned before.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.symbols.get(name).copied()
    }

    /// The string behind a symbol of this table; empty for a symbol of another.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.strings.get(symbol.0 as usize).map_or("", |name| name)
    }

    /// The same, shared.
    pub fn shared(&self, symbol: Symbol) -> Arc<str> {
        self.strings.get(symbol.0 as usize).cloned().unwrap_or_else(|| "".into())
    }

    pub fn len(&self) -> usize {
        self.strings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_a_symbol_and_come_back() {
        let mut names = Names::default();
        let (a, b) = (names.intern("zone"), names.intern("region"));
        assert_eq!(names.intern("zone"), a);
        assert_ne!(a, b);
        assert_eq!(names.text(a), "zone");
        assert_eq!(names.find("region"), Some(b));
        assert_eq!(names.find("rack"), None);
        assert_eq!(names.len(), 2);
    }
}
