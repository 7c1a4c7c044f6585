//! A profile brought to life: its plugins, and who runs where.

use crate::lap::Laps;
use crate::plugin::Plugin;
use crate::plugins::{self, ArgsError, DEFAULT_PREEMPTION};
use crate::preempt::Sample;
use crate::profile::{Point, Profile};
use crate::snapshot::Snapshot;

/// A plugin by its place in [`Framework::plugins`].
pub type PluginIx = usize;

#[derive(Debug)]
pub struct Framework {
    pub scheduler_name: String,
    pub plugins: Vec<Box<dyn Plugin>>,
    pub gates: Vec<PluginIx>,
    pub pre_filters: Vec<PluginIx>,
    pub filters: Vec<PluginIx>,
    pub scores: Vec<(PluginIx, i64)>,
    pub reserves: Vec<PluginIx>,
    pub patches: Vec<PluginIx>,
    pub preempts: bool,
    /// How far preemption looks where it cannot look at everything.
    pub sample: Sample,
    /// How long plugins took, while somebody lends a clock.
    pub laps: Laps,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("plugin {0} does not exist")]
    Unknown(String),
    #[error(transparent)]
    Args(#[from] ArgsError),
}

impl Framework {
    pub fn new(profile: &Profile, snapshot: &mut Snapshot) -> Result<Self, BuildError> {
        let mut framework = Self {
            scheduler_name: profile.scheduler_name.clone(),
            plugins: Vec::new(),
            gates: Vec::new(),
            pre_filters: Vec::new(),
            filters: Vec::new(),
            scores: Vec::new(),
            reserves: Vec::new(),
            patches: Vec::new(),
            preempts: false,
            sample: profile
                .args
                .get(DEFAULT_PREEMPTION)
                .map_or(Ok(Sample::default()), Sample::read)?,
            laps: Laps::default(),
        };
        for point in Point::ALL {
            for enabled in profile.at(point) {
                let plugin = framework.plugin(&enabled.name, profile, snapshot)?;
                match point {
                    Point::PreEnqueue => framework.gates.push(plugin),
                    Point::PreFilter => framework.pre_filters.push(plugin),
                    Point::Filter => framework.filters.push(plugin),
                    Point::Score => framework.scores.push((plugin, enabled.weight.max(1))),
                    Point::Reserve => framework.reserves.push(plugin),
                    Point::PreBind => framework.patches.push(plugin),
                    Point::PostFilter => framework.preempts |= enabled.name == DEFAULT_PREEMPTION,
                    // The queue sorts, the process binds, and what is prepared for a class is
                    // prepared once for filter and score.
                    Point::QueueSort
                    | Point::PreScore
                    | Point::Permit
                    | Point::Bind
                    | Point::PostBind => {}
                }
            }
        }
        Ok(framework)
    }

    fn plugin(
        &mut self,
        name: &str,
        profile: &Profile,
        snapshot: &mut Snapshot,
    ) -> Result<PluginIx, BuildError> {
        if let Some(at) = self.plugins.iter().position(|plugin| plugin.name() == name) {
            return Ok(at);
        }
        let row = plugins::find(name).ok_or_else(|| BuildError::Unknown(name.to_owned()))?;
        let args = profile.args.get(name).unwrap_or(&serde_json::Value::Null);
        self.plugins.push((row.build)(args, snapshot)?);
        Ok(self.plugins.len() - 1)
    }

    pub fn get(&self, plugin: PluginIx) -> Option<&dyn Plugin> {
        self.plugins.get(plugin).map(AsRef::as_ref)
    }
}
