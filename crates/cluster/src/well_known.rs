//! Which names has Kubernetes given a meaning?
//!
//! Labels, annotations, taints and finalizers that controllers and nodes read and write. They are
//! part of the wire; kubectl and other clients look for exactly these.

/// Label: which template a pod or ReplicaSet of a Deployment was made from.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Label: which revision a pod of a DaemonSet or StatefulSet was made from.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// Label: the name of a StatefulSet's pod, for services that select one pod.
pub const STATEFUL_SET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Label: the ordinal of a StatefulSet's pod.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Label and annotation: the completion index of an Indexed Job's pod.
pub const JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Labels that tie a pod to its Job, with and without prefix.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub const JOB_NAME_LEGACY: &str = "job-name";
pub const JOB_UID: &str = "batch.kubernetes.io/controller-uid";
pub const JOB_UID_LEGACY: &str = "controller-uid";

/// Annotation: the number of a rollout, on Deployments and ReplicaSets.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation: earlier numbers of a template that was rolled back to.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation: the Deployment's replicas when it last scaled this ReplicaSet.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation: the Deployment's replicas plus surge when it last scaled this ReplicaSet.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotation: what `kubectl apply` was given last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation: how much it would cost to lose this pod; the cheapest goes first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Annotation of DaemonSets from before they had revisions.
pub const DAEMON_SET_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Finalizer: the Job controller has not counted this pod yet.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Finalizer: dependents go first.
pub const FOREGROUND_DELETION: &str = "foregroundDeletion";
/// Finalizer: dependents stay and lose their owner reference.
pub const ORPHAN_DEPENDENTS: &str = "orphan";
/// Finalizer in a Namespace's spec: its content must go first.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";

pub const TAINT_NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const TAINT_UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub const TAINT_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
pub const TAINT_MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
pub const TAINT_DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
pub const TAINT_PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
pub const TAINT_NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Where nodes renew their leases.
pub const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";
