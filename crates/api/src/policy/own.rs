//! Tidepool's own keys, with their defaults.

use std::time::Duration;

use serde::Deserialize;

use super::words::KernelMode;

/// `tidepool-kernel-config`: how best-effort is kept behind on kernels without group identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct KernelPolicy {
    #[serde(deserialize_with = "any_case")]
    pub mode: KernelMode,
    /// Measures which mode online work notices least, with [`KernelMode::Auto`].
    pub probe: bool,
}

/// Our words may be written in any case; their limits have refused all others.
fn any_case<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<KernelMode, D::Error> {
    let word = String::deserialize(deserializer)?;
    let modes = [KernelMode::Weight, KernelMode::IdlePods, KernelMode::WholeCores];
    let known = modes.into_iter().find(|mode| mode.as_str().eq_ignore_ascii_case(&word));
    Ok(known.unwrap_or_default())
}

/// `tidepool-reaction-config`: what is done at once when online work waits for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReactionPolicy {
    pub enable: bool,
    /// Decides and shows the decision, and changes nothing.
    pub dry_run: bool,
    pub freeze: FreezePolicy,
}

/// Freezing best-effort pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FreezePolicy {
    pub enable: bool,
    pub max_seconds: u64,
}

impl ReactionPolicy {
    /// How long a pod is frozen at a time; `None` freezes nobody.
    pub fn freezes_for(&self) -> Option<Duration> {
        self.freeze.enable.then(|| Duration::from_secs(self.freeze.max_seconds))
    }
}

/// `tidepool-switch-config`: whether agents act at all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SwitchPolicy {
    #[serde(rename = "mode", deserialize_with = "is_off")]
    pub is_off: bool,
    #[serde(default)]
    pub reason: String,
}

fn is_off<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(deserializer)?.eq_ignore_ascii_case("off"))
}
