//! Labels and annotations of profiles, ConfigMaps, webhook configurations and namespaces.

use super::keys;

keys! {
    /// On profiles; presence keeps cpu and memory of matching pods as they are.
    annotation SKIP_UPDATE_RESOURCES: String = "config.koordinator.sh/skip-update-resources";
    /// On profiles; `"true"` lets the controller apply it to waiting pods.
    label CONTROLLER_MANAGED: bool = "config.koordinator.sh/controller-managed";
    /// On pods and reservations: profiles that were applied, where applying them
    /// again would change something. W and R: webhook, and the profile controller.
    annotation APPLIED_PROFILES: Vec<String> = "config.koordinator.sh/applied-profiles";
    /// Only ConfigMaps with this label reach the validating webhook.
    label CONFIG_MAP_TYPE: String = "koordinator.sh/configmap-type";
    /// On reservations: who made it.
    label CREATED_BY: String = "app.kubernetes.io/created-by";
    /// On webhook configurations: the list as installed, as JSON. No domain on the wire.
    annotation WEBHOOK_TEMPLATE: String = "template";
    /// On webhook configurations: of the list that was made from the template.
    annotation WEBHOOK_FINGERPRINT: String = "tidepool.io/webhooks-fingerprint";
    /// Any value keeps a namespace's pods from the pod webhooks. The reference's
    /// chart writes `controle-plane` on its own namespace, which has no effect.
    label CONTROL_PLANE: String = "control-plane";
    /// Ours, on our namespace in one-machine mode: its configuration was made once.
    annotation CONFIGURED: String = "tidepool.io/configured";
    /// A namespace's name, set by Kubernetes.
    label NAMESPACE_NAME: String = "kubernetes.io/metadata.name";
}

/// A barrier pod carries one annotation for each scheduler: this and the lease's
/// name. The value is a time with nanoseconds.
pub const SYNC_BARRIER_PREFIX: &str = "scheduling.koordinator.sh/sync-barrier-";
