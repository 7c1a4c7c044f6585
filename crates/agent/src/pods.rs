//! Which pods are on this node?
//!
//! Two can tell. The kubelet is asked every ten seconds, and at once when a control group appears.
//! When it fails three times, or when there is none, the API server is watched for pods bound to
//! this node; that goes on until the kubelet answers again. While nobody answers, the last known
//! pods stay: a pod that is gone costs a few reads of files that are not there, and a pod that was
//! forgotten would be unprotected.
//!
//! | file | question |
//! |---|---|
//! | [`read`] | what of a pod does the agent look at? |
//! | [`Departure`] | what matters when somebody has to leave? |
//! | [`asked`] | what is asked for a pod? |
//! | [`source`] | who is asked now, and when again? |
//! | [`from_api`] | what does the API server say? |
//! | [`from_kubelet`] | what does the kubelet say? |

pub mod asked;
mod departure;
pub mod from_api;
pub mod from_kubelet;
pub mod read;
pub mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use asked::{Asked, Bounds, ContainerAsked};
pub use departure::Departure;
pub use read::NodePod;

/// The pods of this node by uid; unchanged pods keep their `Arc`.
pub type Pods = Arc<BTreeMap<String, Arc<NodePod>>>;

/// The next list, with the `Arc`s of pods that did not change.
pub(crate) fn next(previous: &Pods, pods: impl IntoIterator<Item = NodePod>) -> Pods {
    let keep = |pod: NodePod| match previous.get(&pod.view.uid) {
        Some(known) if **known == pod => known.clone(),
        _ => Arc::new(pod),
    };
    Arc::new(pods.into_iter().map(|pod| (pod.view.uid.clone(), keep(pod))).collect())
}
