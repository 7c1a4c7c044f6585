//! What is in force after the ConfigMap changed?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::config::{Config, Key, Options, Status};
use api::finding::Finding;

use super::{InForce, Settings};

/// What was seen of the ConfigMap.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// It does not exist, or does so no longer.
    Absent,
    Data(BTreeMap<String, String>),
}

/// Something new is in force.
#[derive(Debug, Clone)]
pub struct Change {
    pub in_force: Arc<InForce>,
    /// Keys whose text is not the one in force.
    pub bad: BTreeSet<Key>,
    /// Keys that were bad before.
    pub recovered: BTreeSet<Key>,
}

impl Change {
    /// The errors of one key.
    pub fn of(&self, key: Key) -> impl Iterator<Item = &Finding> {
        self.in_force
            .findings
            .iter()
            .filter(move |finding| finding.key.as_deref() == Some(key.name()) && finding.is_error())
    }
}

/// What was in force, and for which input.
#[derive(Debug, Clone)]
pub struct State {
    object: String,
    options: Options,
    seen: Option<Input>,
    latest: Option<Arc<InForce>>,
    bad: BTreeSet<Key>,
}

impl State {
    pub fn new(settings: &Settings) -> Self {
        Self {
            object: format!("ConfigMap {}/{}", settings.namespace, settings.name),
            options: settings.options,
            seen: None,
            latest: None,
            bad: BTreeSet::new(),
        }
    }

    /// What changes with this input; nothing when it was seen already.
    pub fn next(&mut self, input: Input) -> Option<Change> {
        if self.seen.as_ref() == Some(&input) {
            return None;
        }
        let (config, findings) = match &input {
            Input::Absent => (Config::default(), Vec::new()),
            Input::Data(data) => {
                let previous = self.latest.as_ref().map(|latest| &latest.config);
                Config::load(data, previous, &self.object, self.options)
            }
        };
        let bad: BTreeSet<Key> = Key::ALL
            .into_iter()
            .filter(|key| {
                matches!(config.status(*key), Status::Kept | Status::Fallback | Status::Unavailable)
            })
            .collect();
        let in_force = Arc::new(InForce {
            config,
            is_present: input != Input::Absent,
            generation: self.latest.as_ref().map_or(0, |latest| latest.generation) + 1,
            findings,
        });
        let recovered = self.bad.difference(&bad).copied().collect();
        self.seen = Some(input);
        self.latest = Some(in_force.clone());
        self.bad.clone_from(&bad);
        Some(Change { in_force, bad, recovered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(Key, &str)]) -> Input {
        Input::Data(
            pairs.iter().map(|(key, text)| (key.name().to_owned(), (*text).to_owned())).collect(),
        )
    }

    fn reclaim(change: &Change) -> i64 {
        let cluster = change.in_force.config.cluster(Key::Colocation).unwrap();
        cluster.get(&["cpuReclaimThresholdPercent"]).unwrap().value.as_i64().unwrap()
    }

    #[test]
    fn each_row_of_the_table() {
        let mut state = State::new(&Settings::default());

        let first = state.next(Input::Absent).expect("defaults are better than nothing");
        assert!(!first.in_force.is_present && first.in_force.is_colocation_doubtful());
        assert_eq!(reclaim(&first), 60);
        assert!(state.next(Input::Absent).is_none(), "seen already");

        let good = data(&[(Key::Colocation, r#"{"cpuReclaimThresholdPercent":70}"#)]);
        let loaded = state.next(good.clone()).unwrap();
        assert_eq!((reclaim(&loaded), loaded.in_force.generation), (70, 2));
        assert!(!loaded.in_force.is_colocation_doubtful());
        assert!(state.next(good.clone()).is_none(), "the same data again");

        let bad = data(&[(Key::Colocation, "{"), (Key::System, r#"{"clusterStrategy":{}}"#)]);
        let kept = state.next(bad).unwrap();
        assert_eq!(reclaim(&kept), 70, "a text that does not parse");
        assert_eq!(kept.bad, BTreeSet::from([Key::Colocation]));
        assert_eq!(kept.in_force.config.status(Key::System), Status::Loaded, "others advance");
        assert_eq!(kept.of(Key::Colocation).count(), 1);
        assert!(kept.in_force.is_colocation_doubtful());

        let out_of_range = data(&[(Key::Colocation, r#"{"degradeTimeMinutes":0}"#)]);
        let kept = state.next(out_of_range).unwrap();
        assert_eq!(reclaim(&kept), 70, "a cluster part that is out of range");
        assert!(kept.recovered.is_empty());

        let back = state.next(good).unwrap();
        assert_eq!(back.recovered, BTreeSet::from([Key::Colocation]));

        let deleted = state.next(Input::Absent).unwrap();
        assert_eq!(reclaim(&deleted), 60, "deletion falls back to defaults");
        assert!(!deleted.in_force.is_present);
    }

    #[test]
    fn a_bad_start_leaves_co_location_unavailable_and_others_at_their_defaults() {
        let mut state = State::new(&Settings::default());
        let change = state.next(data(&[(Key::Colocation, "x"), (Key::Burst, "")])).unwrap();
        assert_eq!(change.in_force.config.status(Key::Colocation), Status::Unavailable);
        assert_eq!(change.in_force.config.status(Key::Burst), Status::Fallback);
        assert_eq!(change.bad, BTreeSet::from([Key::Colocation, Key::Burst]));
    }

    #[test]
    fn a_bad_entry_becomes_the_clusters_strategy() {
        let mut state = State::new(&Settings::default());
        let text = r#"{"cpuReclaimThresholdPercent":70,"nodeConfigs":[{"name":"a",
            "nodeSelector":{},"cpuReclaimThresholdPercent":-5}]}"#;
        let change = state.next(data(&[(Key::Colocation, text)])).unwrap();
        assert!(change.bad.is_empty(), "the key itself is in force");
        let chosen = change.in_force.config.choose(Key::Colocation, &BTreeMap::new()).unwrap();
        let percent = chosen.layer.get(&["cpuReclaimThresholdPercent"]).unwrap();
        assert_eq!(percent.value, 70);
    }
}
