//! What is changed besides files of control groups: groups of the cache, cookies, the network.
//!
//! Each has a kernel of its own to speak to and its own way to remember what was found, so none goes through
//! the arbiter. Together they follow pods, and together they are given back.

use std::path::{Path, PathBuf};

use host::cgroup::Tree;
use host::cookies::{Cookies, FakeCookies, KernelCookies};
use jiff::Timestamp;
use qos::wish::Wish;
use rustix::io::Errno;

use super::cache::Cache;
use super::cookies::Jar;
use super::facts::Facts;
use super::gauges;
use super::journal::Journal;
use super::network::{Network, Places};
use crate::exposition::Exposition;

const CACHE: &str = "cache";
pub(super) const COOKIES: &str = "cookies";
const NETWORK: &str = "network";

/// Whose reasons are in the journal.
pub(super) const OWNERS: [&str; 3] = [CACHE, COOKIES, NETWORK];

/// What is remembered, beside the list of files.
const KEPT: [&str; 3] = ["resctrl", "cookies", "network"];

/// Where that is.
pub(super) fn lists(files: &Path) -> [PathBuf; 3] {
    KEPT.map(|what| files.with_added_extension(what))
}

#[derive(Debug)]
pub(super) struct Besides {
    cache: Cache,
    cookies: Jar,
    network: Network,
}

impl Besides {
    /// Reads what an earlier life found, beside its list of files.
    pub(super) fn open(tree: &Tree, files: &Path) -> Self {
        let [cache, cookies, network] = lists(files);
        Self {
            cache: Cache::open(cache),
            cookies: Jar::open(kernel_cookies(tree), cookies),
            network: Network::open(Places::default(), network),
        }
    }

    /// Other cookies than the kernel's.
    #[cfg(test)]
    pub(super) fn use_cookies(&mut self, files: &Path, cookies: Box<dyn Cookies>) {
        let [_, path, _] = lists(files);
        self.cookies = Jar::open(cookies, path);
    }

    /// Other drivers than the machine's.
    #[cfg(test)]
    pub(super) fn use_network(&mut self, files: &Path, places: Places) {
        let [_, _, path] = lists(files);
        self.network = Network::open(places, path);
    }

    /// How much is not as it was found.
    pub(super) fn held(&self) -> usize {
        let held = [self.cache.held(), self.cookies.held(), self.network.held()];
        held.into_iter().fold(0, usize::saturating_add)
    }

    /// Follows the pods; files that have to change for it.
    pub(super) fn round(
        &mut self,
        facts: &Facts<'_>,
        journal: &Journal,
        exposition: Option<&Exposition>,
        at: Timestamp,
    ) -> Vec<Wish> {
        journal.decided(CACHE, self.cache.round(facts), at);
        let cookies = self.cookies.round(facts);
        if let Some(exposition) = exposition {
            gauges::cookies(exposition, &cookies);
        }
        journal.decided(COOKIES, cookies.whys, at);
        journal.decided(NETWORK, self.network.round(facts), at);
        cookies.files
    }

    /// Gives everything back, as far as the kernel lets us.
    pub(super) fn give_back(&mut self, tree: &Tree) {
        self.cache.give_back(&tree.shared_fs());
        self.cookies.give_back(tree.fs());
        self.network.give_back();
    }
}

/// The kernel's cookies; a recorded host has none.
fn kernel_cookies(tree: &Tree) -> Box<dyn Cookies> {
    match tree.fs().real_path(Path::new("/")) {
        Some(_) => Box::new(KernelCookies),
        None => Box::new(FakeCookies::refusing(Errno::OPNOTSUPP)),
    }
}
