//! Random clusters, the same for the same seed.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

/// A splitmix64 generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        sched::tie::mix(self.0)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    pub(crate) fn node(&mut self, name: &str) -> Node {
        let cpu = 2 + self.below(15);
        let memory = 4 + self.below(30);
        let mut allocatable = json!({
            "cpu": cpu.to_string(), "memory": format!("{memory}Gi"),
            "pods": (2 + self.below(20)).to_string(),
        });
        if self.chance(25) {
            allocatable["nvidia.com/gpu"] = json!((1 + self.below(4)).to_string());
        }
        if self.chance(20) {
            allocatable["kubernetes.io/batch-cpu"] = json!((self.below(8) * 1000).to_string());
        }
        if self.chance(5) {
            allocatable["cpu"] = json!("0");
        }
        let mut taints = Vec::new();
        for _ in 0..self.below(4).saturating_sub(1) {
            let effect =
                self.one(&["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"]);
            let key = self.one(&["a", "b"]);
            taints.push(json!({"key": key, "value": self.one(&["x", "y"]), "effect": effect}));
        }
        let mut images = Vec::new();
        for image in ["web:1", "db:2", "tool:3"] {
            if self.chance(30) {
                images.push(json!({"names": [image], "sizeBytes": self.below(900) << 20}));
            }
        }
        let node = json!({
            "metadata": {"name": name, "uid": name, "labels": {
                "zone": self.one(&["z1", "z2", "z3"]), "disk": self.one(&["ssd", "hdd"]),
                "rank": self.below(5).to_string(),
            }},
            "spec": {"unschedulable": self.chance(5), "taints": taints},
            "status": {"allocatable": allocatable, "images": images},
        });
        serde_json::from_value(node).unwrap()
    }

    pub(crate) fn pod(&mut self, number: u32) -> Pod {
        let name = format!("p{number}");
        let mut containers = Vec::new();
        for _ in 0..=self.below(2) {
            containers.push(self.container());
        }
        let mut spec = json!({"containers": containers, "schedulerName": "default-scheduler"});
        if self.chance(15) {
            let mut init = self.container();
            if self.chance(50) {
                init["restartPolicy"] = json!("Always");
            }
            spec["initContainers"] = json!([init, self.container()]);
        }
        if self.chance(10) {
            spec["overhead"] = json!({"cpu": "50m"});
        }
        if self.chance(40) {
            spec["priority"] = json!(self.below(4) * 100);
        }
        if self.chance(10) {
            spec["preemptionPolicy"] = json!("Never");
        }
        if self.chance(20) {
            spec["nodeSelector"] = json!({"disk": self.one(&["ssd", "hdd"])});
        }
        if self.chance(50) {
            spec["tolerations"] = json!([self.toleration(), self.toleration()]);
        }
        if self.chance(30) {
            spec["affinity"] = self.affinity();
        }
        if self.chance(20) {
            let kind = self.one(&["podAffinity", "podAntiAffinity"]);
            spec["affinity"][kind] = self.company();
        }
        if self.chance(20) {
            spec["topologySpreadConstraints"] = json!([self.spread(), self.spread()]);
        }
        let pod = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("u{number}"),
                "labels": {"app": self.one(&["web", "db", "tool"])},
            },
            "spec": spec,
            "status": {"startTime": format!("2026-01-01T00:{:02}:00Z", self.below(60))},
        });
        serde_json::from_value(pod).unwrap()
    }

    pub(crate) fn app(&mut self) -> String {
        self.one(&["web", "db", "tool"]).to_owned()
    }

    fn container(&mut self) -> Value {
        let mut requests = json!({});
        if self.chance(80) {
            requests["cpu"] = json!(self.one(&["0", "100m", "250m", "1", "2", "3500m"]));
        }
        if self.chance(70) {
            requests["memory"] = json!(self.one(&["64Mi", "1Gi", "3Gi", "8Gi"]));
        }
        if self.chance(10) {
            requests["nvidia.com/gpu"] = json!("1");
        }
        if self.chance(5) {
            requests["kubernetes.io/batch-cpu"] = json!("1500");
        }
        let image = self.one(&["web:1", "db:2", "tool:3", "other:4"]);
        let mut container = json!({
            "name": format!("c{}", self.below(1_000_000)), "image": image,
            "resources": {"requests": requests},
        });
        if self.chance(12) {
            let mut port = json!({"containerPort": 80, "hostPort": 8000 + self.below(3)});
            if self.chance(40) {
                port["hostIP"] = json!(self.one(&["10.0.0.1", "10.0.0.2", "0.0.0.0"]));
            }
            if self.chance(30) {
                port["protocol"] = json!("UDP");
            }
            container["ports"] = json!([port]);
        }
        container
    }

    fn toleration(&mut self) -> Value {
        let mut toleration = json!({"operator": self.one(&["Equal", "Exists"])});
        if self.chance(80) {
            toleration["key"] = json!(self.one(&["a", "b", "node.kubernetes.io/unschedulable"]));
        }
        if toleration["operator"] == "Equal" {
            toleration["value"] = json!(self.one(&["x", "y"]));
        }
        if self.chance(50) {
            toleration["effect"] =
                json!(self.one(&["NoSchedule", "NoExecute", "PreferNoSchedule"]));
        }
        toleration
    }

    /// Terms about other pods.
    fn company(&mut self) -> Value {
        let app = self.one(&["web", "db", "tool"]);
        let key = self.one(&["zone", "disk", "rank"]);
        let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
        if self.chance(50) {
            return json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        }
        let weighted = json!({"weight": 1 + self.below(100), "podAffinityTerm": term});
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [weighted]})
    }

    fn spread(&mut self) -> Value {
        let app = self.one(&["web", "db", "tool"]);
        json!({
            "maxSkew": 1 + self.below(4), "topologyKey": self.one(&["zone", "disk", "rank"]),
            "whenUnsatisfiable": self.one(&["DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeAffinityPolicy": "Ignore",
        })
    }

    fn affinity(&mut self) -> Value {
        let mut affinity = json!({});
        if self.chance(50) {
            let terms: Vec<Value> = (0..self.below(3)).map(|_| self.term()).collect();
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        if self.chance(70) {
            let terms: Vec<Value> = (0..=self.below(2))
                .map(|_| json!({"weight": 1 + self.below(100), "preference": self.term()}))
                .collect();
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
        }
        json!({"nodeAffinity": affinity})
    }

    fn term(&mut self) -> Value {
        match self.below(8) {
            0 => json!({}),
            1 => {
                let names = [format!("n{}", self.below(30))];
                json!({"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": names},
                ]})
            }
            2 => {
                let operator = self.one(&["Gt", "Lt"]);
                let bound = self.below(5).to_string();
                json!({"matchExpressions": [{"key": "rank", "operator": operator, "values": [bound]}]})
            }
            3 => json!({"matchExpressions": [
                {"key": "nothing", "operator": self.one(&["Exists", "DoesNotExist"])},
            ]}),
            _ => {
                let operator = self.one(&["In", "NotIn"]);
                let values = [self.one(&["z1", "z2"]), self.one(&["z2", "z3"])];
                json!({"matchExpressions": [
                    {"key": "zone", "operator": operator, "values": values},
                    {"key": "disk", "operator": "Exists"},
                ]})
            }
        }
    }

    pub(crate) fn budget(&mut self, name: &str) -> PodDisruptionBudget {
        let budget = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": self.one(&["web", "db", "tool"])}}},
            "status": {
                "disruptionsAllowed": self.below(3), "currentHealthy": 1, "desiredHealthy": 1,
                "expectedPods": 1,
            },
        });
        serde_json::from_value(budget).unwrap()
    }
}
