//! The kernel's classes of packets, through the program `tc`.
//!
//! A plan goes in one batch below a root of handle `1:`. Packets of a pod are told by the address they
//! come from. Taking the root away leaves the kernel's own queue, as it was found.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use host::fs::HostFs;
use qos::network::Plan;

use super::NetworkError;

/// How the program is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tc {
    pub(crate) program: String,
    /// What stands before its own arguments.
    pub(crate) before: Vec<String>,
}

impl Default for Tc {
    fn default() -> Self {
        Self { program: "tc".to_owned(), before: Vec::new() }
    }
}

impl Tc {
    /// The queue that somebody chose for a device, in tc's words; `None` for the kernel's own.
    pub(super) fn queue(&self, device: &str) -> Result<Option<String>, NetworkError> {
        let said = self.run(&["qdisc", "show", "dev", device], "")?;
        let mut queues = said.lines().filter_map(|line| line.strip_prefix("qdisc "));
        let root = queues.find(|queue| queue.contains(" root"));
        // What nobody chose has no handle.
        let is_chosen = |queue: &&str| queue.split(' ').nth(1) != Some("0:");
        Ok(root.filter(is_chosen).map(str::to_owned))
    }

    pub(super) fn has_device(&self, device: &str) -> bool {
        self.run(&["qdisc", "show", "dev", device], "").is_ok()
    }

    pub(super) fn remove(&self, device: &str) -> Result<(), NetworkError> {
        self.run(&["qdisc", "del", "dev", device, "root"], "").map(drop)
    }

    pub(super) fn apply(&self, device: &str, plan: &Plan) -> Result<(), NetworkError> {
        self.run(&["-batch", "-"], &plan.commands(device)).map(drop)
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<String, NetworkError> {
        let Output { status, stdout, stderr } =
            self.output(arguments, input).map_err(NetworkError::Program)?;
        match status.success() {
            true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
            false => {
                let text = String::from_utf8_lossy(&stderr);
                Err(NetworkError::Refused(text.split('\n').next().unwrap_or_default().to_owned()))
            }
        }
    }

    fn output(&self, arguments: &[&str], input: &str) -> io::Result<Output> {
        let mut child = Command::new(&self.program)
            .args(&self.before)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut pipe) = child.stdin.take() {
            // A program that ended has said why.
            let _ = pipe.write_all(input.as_bytes());
        }
        child.wait_with_output()
    }
}

/// The device of the default route.
pub(super) fn default_device(fs: &dyn HostFs) -> Option<String> {
    let text = fs.read(Path::new("/proc/net/route")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut routes = text.lines().skip(1).map(|line| line.split_whitespace());
    routes.find_map(|mut words| {
        let (device, destination) = (words.next()?, words.next()?);
        (destination == "00000000").then(|| device.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use host::fs::FakeFs;
    use qos::network::{BitRate, Class, Pod, Shape, Share, Tier, band, plan};

    use super::*;

    fn example() -> Plan {
        let total = BitRate(1_000_000_000);
        let class = |percent| {
            let band = band(Some(Share::Percent(percent)), None, total);
            Class { sent: band, received: band }
        };
        let shape = Shape { total, online: class(60), behind: class(10) };
        let pod = |uid: &str, last, tier, limit| Pod {
            uid: uid.to_owned(),
            address: Ipv4Addr::new(10, 0, 0, last),
            tier,
            limit,
        };
        let pods =
            [pod("a", 1, Tier::Online, None), pod("b", 2, Tier::Behind, Some(BitRate(10_000_000)))];
        plan(&shape, &pods).unwrap()
    }

    #[test]
    fn the_device_is_that_of_the_default_route() {
        let header = "Iface\tDestination\tGateway\tFlags\n";
        let find = |routes: &str| {
            let fake = FakeFs::from_fixture("-- proc/net/dev --\n").unwrap();
            fake.set("proc/net/route", format!("{header}{routes}"));
            default_device(&fake)
        };
        let route = "eth1\t000200C0\t0\t1\neth0\t00000000\t010200C0\t3\n";
        assert_eq!(find(route).as_deref(), Some("eth0"));
        assert_eq!(find("eth1\t000200C0\t0\t1\n"), None);
    }

    /// A network of its own, with two devices that lead to each other.
    struct Namespace(String);

    impl Namespace {
        fn new() -> Option<Self> {
            let name = format!("tidepool-test-{}", std::process::id());
            let made = ip(&["netns", "add", &name]).then(|| Self(name.clone()))?;
            ip(&["-n", &name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"])
                .then_some(made)
        }

        fn tc(&self) -> Tc {
            let before = ["netns", "exec", &self.0, "tc"].map(str::to_owned).to_vec();
            Tc { program: "ip".to_owned(), before }
        }
    }

    impl Drop for Namespace {
        fn drop(&mut self) {
            ip(&["netns", "del", &self.0]);
        }
    }

    fn ip(arguments: &[&str]) -> bool {
        let ran = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
        ran.is_ok_and(|status| status.success())
    }

    #[test]
    fn this_kernel_takes_a_plan_and_gives_its_queue_back() {
        let Some(namespace) = Namespace::new() else {
            println!("skipped: no network namespace of our own");
            return;
        };
        let tc = namespace.tc();
        assert_eq!(tc.queue("v0").unwrap(), None, "the kernel's own");
        tc.apply("v0", &example()).unwrap();
        let queue = tc.queue("v0").unwrap().unwrap();
        assert!(qos::network::is_planned(&queue), "{queue}");
        let classes = tc.run(&["class", "show", "dev", "v0"], "").unwrap();
        for line in ["1:3 parent 1:1", "prio 2 rate 600Mbit ceil 1Gbit", "1:10 parent 1:1"] {
            assert!(classes.contains(line), "{line} in {classes}");
        }
        assert!(tc.apply("v0", &example()).is_err(), "there is a queue already");
        tc.remove("v0").unwrap();
        assert_eq!(tc.queue("v0").unwrap(), None);
        tc.run(&["qdisc", "add", "dev", "v0", "root", "handle", "7:", "pfifo"], "").unwrap();
        let theirs = tc.queue("v0").unwrap().unwrap();
        assert!(!qos::network::is_planned(&theirs), "{theirs}");
        assert!(!tc.has_device("v9"));
    }
}
