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
//! | [`source`] | who is asked now, and when again? |
//! | [`from_api`] | what does the API server say? |
//! | [`from_kubelet`] | what does the kubelet say? |

pub mod from_api;
pub mod from_kubelet;
pub mod source;
