//! A manager beside an API server that really calls its webhooks.

mod admission;
mod certificates;
mod faults;
mod leadership;
mod pages;
mod quotas;
mod rig;
