//! Resources by number, and what a pod asks for.

use std::collections::HashMap;

use api::protocol::resource::{CPU, MEMORY};

/// A resource: an index into the columns of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

impl ResourceId {
    /// In milli-cores.
    pub const CPU: Self = Self(0);
    /// In bytes, as every further resource counts in its base unit.
    pub const MEMORY: Self = Self(1);
    pub const EPHEMERAL_STORAGE: Self = Self(2);
    /// How many of them have a place of their own in a [`Room`](crate::snapshot::Room).
    pub const NATIVE: u16 = 3;

    /// Extended resources, huge pages, and everything under `kubernetes.io/`.
    pub fn is_scalar(self) -> bool {
        self.0 >= Self::NATIVE
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The names behind the numbers.
#[derive(Debug)]
pub struct Resources {
    ids: HashMap<String, ResourceId>,
    names: Vec<String>,
}

impl Default for Resources {
    fn default() -> Self {
        let mut table = Self { ids: HashMap::new(), names: Vec::new() };
        for name in [CPU, MEMORY, "ephemeral-storage"] {
            table.intern(name);
        }
        table
    }
}

impl Resources {
    pub fn intern(&mut self, name: &str) -> ResourceId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = ResourceId(u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    pub fn find(&self, name: &str) -> Option<ResourceId> {
        self.ids.get(name).copied()
    }

    pub fn name(&self, id: ResourceId) -> &str {
        self.names.get(id.index()).map_or("", String::as_str)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Amounts by resource, sorted, without zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requests(Vec<(ResourceId, i64)>);

impl Requests {
    pub fn get(&self, id: ResourceId) -> i64 {
        match self.0.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => self.0.get(at).map_or(0, |(_, amount)| *amount),
            Err(_) => 0,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, i64)> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(ResourceId, i64)> for Requests {
    /// Amounts of one resource are added up.
    fn from_iter<T: IntoIterator<Item = (ResourceId, i64)>>(amounts: T) -> Self {
        let mut list: Vec<(ResourceId, i64)> = amounts.into_iter().collect();
        list.sort_by_key(|(id, _)| *id);
        list.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
        list.retain(|(_, amount)| *amount != 0);
        Self(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_resources_have_fixed_numbers() {
        let mut table = Resources::default();
        assert_eq!(table.find("cpu"), Some(ResourceId::CPU));
        assert_eq!(table.find("memory"), Some(ResourceId::MEMORY));
        assert_eq!(table.find("ephemeral-storage"), Some(ResourceId::EPHEMERAL_STORAGE));
        let gpu = table.intern("nvidia.com/gpu");
        assert!(gpu.is_scalar() && !ResourceId::EPHEMERAL_STORAGE.is_scalar());
        assert_eq!(table.name(gpu), "nvidia.com/gpu");
    }

    #[test]
    fn requests_add_up_and_drop_zeros() {
        let amounts =
            [(ResourceId(5), 1), (ResourceId(0), 7), (ResourceId(5), 2), (ResourceId(1), 0)];
        let requests: Requests = amounts.into_iter().collect();
        assert_eq!(requests.iter().collect::<Vec<_>>(), [(ResourceId(0), 7), (ResourceId(5), 3)]);
        assert_eq!((requests.get(ResourceId(5)), requests.get(ResourceId(9))), (3, 0));
    }
}
