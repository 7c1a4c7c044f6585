//! Decisions are functions of values: a round that is only told what the machine is like comes to the wishes
//! that the agent posts after it has looked.

use groups::Version;
use qos::node::{Memory, readings, round, strategies};
use serde_json::json;

use super::rig::{POD, Pod, Rig};

#[test]
fn values_alone_come_to_what_the_agent_posts() {
    for version in [Version::V1, Version::V2] {
        let mut rig = Rig::new(version);
        rig.slo(json!({
            "resourceUsedThresholdWithBE": { "enable": true, "cpuSuppressPolicy": "cpuset" },
            "resourceQOSStrategy": {
                "lsClass": { "memoryQOS": { "enable": true, "minLimitPercent": 50 } },
                "beClass": { "cpuQOS": { "enable": true, "groupIdentity": -1 } },
            },
        }));
        let memory = json!({ "requests": { "cpu": "4", "memory": "4Gi" } });
        rig.add(Pod { name: "web", resources: memory, ..POD });
        rig.add(Pod { name: "own", qos: "LSR", cpus: "0-1", ..POD });
        let batch = json!({ "limits": { "kubernetes.io/batch-cpu": "2k" } });
        rig.add(Pod { name: "job", qos: "BE", resources: batch.clone(), ..POD });

        let mut remembered = Memory::default();
        let mut seen = 0;
        for second in 0..300_u32 {
            rig.uses("web", f64::from(second / 20 % 9) + 0.3);
            rig.uses("job", 1.5);
            if second == 100 {
                rig.add(Pod { name: "late", qos: "BE", resources: batch.clone(), ..POD });
            }
            if second == 200 {
                rig.remove("job");
            }
            let mut state = rig.values();
            let asked = readings(&state, &remembered);
            assert!(asked.children.iter().all(|group| state.machine.children.contains_key(group)));
            assert!(asked.quotas.is_empty() && asked.processes.is_empty(), "{asked:?}");
            if asked.cpus.is_empty() {
                state.machine.cpus.clear();
            }
            let decided = round(&state, &mut remembered);
            rig.tick();
            for post in &decided.posts {
                let posted = rig.rounds.arbiter().posted(post.strategy);
                assert_eq!(posted, post.wishes, "{} at {second} on {version:?}", post.strategy);
                seen += post.wishes.len();
            }
            let names: Vec<_> = decided.posts.iter().map(|post| post.strategy).collect();
            assert!(names.iter().all(|name| strategies().any(|known| known == *name)));
        }
        assert!(seen > 1_000, "{seen} wishes on {version:?}");
    }
}
