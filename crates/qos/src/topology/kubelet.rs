//! How is the kubelet configured, as far as CPUs and NUMA nodes go? The answer to `GET /configz`.
//!
//! Each field is read by itself: the kubelet changes the types of other fields from one release to the next.

use std::collections::BTreeMap;

use serde_json::Value;
use units::{MilliCpu, Quantity, Rounding};

/// The part of the kubelet's configuration that is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletConfig {
    /// `static` or `none`.
    pub cpu_manager_policy: String,
    pub cpu_manager_options: BTreeMap<String, String>,
    /// `none`, `best-effort`, `restricted` or `single-numa-node`.
    pub topology_policy: String,
    /// `container` or `pod`.
    pub topology_scope: String,
    /// `reservedSystemCPUs`, as written.
    pub reserved_cpus: String,
    /// CPU of `kubeReserved` and `systemReserved` together.
    pub reserved_cpu: MilliCpu,
    /// `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
}

/// Why an answer holds no configuration.
#[derive(Debug, thiserror::Error)]
pub enum KubeletConfigError {
    #[error("/configz is no JSON")]
    Json(#[from] serde_json::Error),
    #[error("/configz has no object kubeletconfig")]
    NoConfig,
}

/// Reads the answer; a field of an unexpected type counts as absent.
pub fn parse(answer: &[u8]) -> Result<KubeletConfig, KubeletConfigError> {
    let answer: Value = serde_json::from_slice(answer)?;
    let config = answer.get("kubeletconfig").filter(|config| config.is_object());
    let config = config.ok_or(KubeletConfigError::NoConfig)?;
    let text =
        |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let options = config.get("cpuManagerPolicyOptions").and_then(Value::as_object);
    let cpu_manager_options = options
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    Ok(KubeletConfig {
        cpu_manager_policy: text("cpuManagerPolicy"),
        cpu_manager_options,
        topology_policy: text("topologyManagerPolicy"),
        topology_scope: text("topologyManagerScope"),
        reserved_cpus: text("reservedSystemCPUs"),
        reserved_cpu: reserved(config, "kubeReserved") + reserved(config, "systemReserved"),
        cgroup_driver: text("cgroupDriver"),
    })
}

fn reserved(config: &Value, field: &str) -> MilliCpu {
    let quantity = match config.get(field).and_then(|list| list.get("cpu")) {
        Some(Value::String(text)) => text.parse::<Quantity>().ok(),
        Some(Value::Number(number)) => number.to_string().parse().ok(),
        _ => None,
    };
    quantity.map_or(MilliCpu(0), |cpu| MilliCpu::from_quantity(cpu, Rounding::Up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_read_and_others_may_be_anything() {
        let answer = br#"{"kubeletconfig":{"cpuManagerPolicy":"static",
            "cpuManagerPolicyOptions":{"full-pcpus-only":"true"},"topologyManagerPolicy":"restricted",
            "topologyManagerScope":"pod","reservedSystemCPUs":"0-1","kubeReserved":{"cpu":"250m"},
            "systemReserved":{"cpu":1,"memory":"1Gi"},"logging":{"flushFrequency":"5s"},
            "cgroupDriver":"systemd"}}"#;
        let config = parse(answer).unwrap();
        assert_eq!(config.cpu_manager_policy, "static");
        assert_eq!(config.cpu_manager_options["full-pcpus-only"], "true");
        assert_eq!(
            (config.topology_policy.as_str(), config.topology_scope.as_str()),
            ("restricted", "pod")
        );
        assert_eq!(config.reserved_cpus, "0-1");
        assert_eq!(config.reserved_cpu, MilliCpu(1250));
        assert_eq!(config.cgroup_driver, "systemd");
    }

    #[test]
    fn fields_of_another_type_count_as_absent() {
        let answer = br#"{"kubeletconfig":{"cpuManagerPolicy":{},"kubeReserved":{"cpu":"many"},
            "systemReserved":[],"cpuManagerPolicyOptions":["x"]}}"#;
        assert_eq!(parse(answer).unwrap(), KubeletConfig::default());
    }

    #[test]
    fn an_answer_without_a_configuration_is_refused() {
        for answer in ["", "{", "null", "{}", r#"{"kubeletconfig":7}"#] {
            assert!(parse(answer.as_bytes()).is_err(), "{answer:?}");
        }
    }
}
