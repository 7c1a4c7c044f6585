//! Which custom resources do we share with a cluster, and what do they hold?
//!
//! Each kind has a module with its types; the objects themselves are re-exported here. Reading is
//! tolerant, as the reference's is: fields that are not known are skipped (see [`Kept`] for how
//! they survive a write), only a value of the wrong type is an error. Writing leaves out what is
//! absent or empty. Names and meanings are the reference's; its odd spellings live in `rename`
//! attributes.

pub mod colocation_profile;
mod definition;
pub mod device;
pub mod elastic_quota;
mod kept;
pub mod migration_job;
pub mod network_topology;
pub mod node_metric;
pub mod node_slo;
pub mod node_topology;
pub mod pod_group;
pub mod quota_profile;
pub mod recommendation;
pub mod reservation;
pub mod schedule_explanation;
mod schema;
pub mod shape;
mod spec;

pub use colocation_profile::ClusterColocationProfile;
pub use definition::{definitions, yaml};
pub use device::Device;
pub use elastic_quota::ElasticQuota;
pub use kept::{Kept, KeptError};
pub use migration_job::PodMigrationJob;
pub use network_topology::ClusterNetworkTopology;
pub use node_metric::NodeMetric;
pub use node_slo::NodeSlo;
pub use node_topology::{NodeResourceTopology, NodeResourceTopologyV1Alpha2};
pub use pod_group::PodGroup;
pub use quota_profile::ElasticQuotaProfile;
pub use recommendation::Recommendation;
pub use reservation::Reservation;
pub use schedule_explanation::ScheduleExplanation;
