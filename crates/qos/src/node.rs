//! What does this node do for its online pods in this round?

mod host_application;
mod object;
mod pod;

pub use self::host_application::{HostApplication, host_applications};
pub use self::object::{Node, SystemCpus};
pub use self::pod::{
    Annotations, Container, ContainerSpec, ContainerState, Eviction, LentAmount, Pod, PodPhase,
    Pods, next,
};
