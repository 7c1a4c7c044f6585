//! The repository's own chores: tests, layer check, generated pages, fuzzing.

mod bench_cluster;
mod browser;
mod child;
mod debian;
mod docs;
mod fuzz;
mod guest;
mod kube;
mod kubectl;
mod layers;
mod machine;
mod prerequisites;
mod record;
mod repository;
mod rules;
mod suite;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use self::repository::Repository;

/// Chores of this repository
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Examples:\n  cargo xtask test\n  cargo xtask help fuzz"
)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run all checks and tests; CI runs exactly this
    ///
    /// Installs what is missing, then checks format, lints, layers, reference
    /// pages, tests, tests in the guest and in a browser, repository rules and fuzz
    /// targets. The last line has the counts. With CI=true in the environment a skipped test is a failed one.
    #[command(after_help = "Examples:\n  cargo xtask test\n  cargo xtask test --quick")]
    Test {
        /// Only format, lints, layers and the tests of this machine
        #[arg(long)]
        quick: bool,
    },
    /// Check that dependencies point the allowed way and nothing outgrows its place
    #[command(after_help = "Examples:\n  cargo xtask layers\n  cargo xtask layers | grep warning")]
    Layers,
    /// Check tracked files: machine paths, sizes, unnumbered marks, whitespace
    #[command(after_help = "Examples:\n  cargo xtask rules\n  git add . && cargo xtask rules")]
    Rules,
    /// Write the generated pages below docs/reference
    #[command(after_help = "Examples:\n  cargo xtask docs\n  cargo xtask docs --check")]
    Docs {
        /// Change nothing; fail when a page is stale
        #[arg(long)]
        check: bool,
    },
    /// Write this machine down as a fake host
    ///
    /// Only files that the host layer reads. Look at the text before it becomes a
    /// fixture: it holds the sizes of this machine and the ids of its pods.
    #[command(after_help = "Examples:\n  cargo xtask record-host\n  \
                      cargo xtask record-host --output fixtures/hosts/v2-16cpu.txt")]
    RecordHost {
        /// Where to write it [default: standard output]
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Build the fuzz targets and look for new inputs
    ///
    /// An input that breaks a target is kept below fuzz/artifacts.
    #[command(after_help = "Examples:\n  cargo xtask fuzz --seconds 10\n  \
                      cargo xtask fuzz quantity --seconds 600 --jobs 2 --minimize")]
    Fuzz {
        /// One target [default: all, one after the other]
        target: Option<String>,
        /// How long to look, for each target
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
        seconds: u64,
        /// How many processes look at the same time
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Add inputs that reach something new to fuzz/corpus
        #[arg(long)]
        minimize: bool,
    },
    /// Try the console in a browser, and take pictures of its pages
    ///
    /// Needs Node, npm and Chromium, and installs them if they are missing.
    #[command(after_help = "Examples:\n  cargo xtask browser\n  cargo xtask browser --images")]
    Browser {
        /// Renew the picture in the README, too
        #[arg(long)]
        images: bool,
    },
    /// A real Kubernetes on this machine: etcd, API server, controllers, containerd, kubelet
    ///
    /// Fetches and builds what is missing, which takes minutes the first time. Needs root and Go.
    #[command(after_help = "Examples:\n  cargo xtask kube up\n  \
                      cargo xtask kube run kubectl get nodes\n  cargo xtask kube down")]
    Kube {
        #[command(subcommand)]
        chore: kube::Chore,
    },
    /// Compare schedulers on one API server, and API servers under one binder
    ///
    /// Needs what `kube` needs, and a machine that does nothing else.
    #[command(after_help = "Examples:\n  cargo xtask bench-cluster --nodes 1000 --rounds 3\n  \
                      cargo xtask bench-cluster --nodes 50 --pods 200 --program target/debug/tidepool")]
    BenchCluster(bench_cluster::Plan),
    /// Make the container image as a tar file, without a registry
    #[command(after_help = "Examples:\n  cargo xtask image\n  \
                      cargo xtask image --output tidepool.tar")]
    Image {
        #[arg(long, default_value = "target/tidepool-image.tar")]
        output: PathBuf,
    },
    /// Run test binaries on a kernel of their own: cgroup v2, 8 CPUs, 2 NUMA nodes
    ///
    /// Boots the binaries of `cargo test` in QEMU and reads the console. Needs
    /// neither root nor KVM.
    #[command(after_help = "Examples:\n  cargo xtask guest\n  \
                      cargo xtask guest -p host --test kernel -- memory")]
    Guest {
        /// Packages with tests for the guest [default: all]
        #[arg(short, long = "package", value_name = "PACKAGE")]
        packages: Vec<String>,
        /// Their test binaries
        #[arg(long = "test", value_name = "NAME", default_value = guest::TEST)]
        tests: Vec<String>,
        /// Environment of the test binaries
        #[arg(long = "env", value_name = "NAME=VALUE")]
        environment: Vec<String>,
        /// How long the machine may run
        #[arg(long, default_value_t = guest::SECONDS)]
        seconds: u64,
        /// Arguments for every test binary
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// `false` when something was found that needs mending.
fn run(chore: Chore) -> Result<bool> {
    let repository = Repository::find()?;
    match chore {
        Chore::Test { quick } => suite::run(&repository, quick),
        Chore::Layers => {
            let report = layers::inspect(&repository)?;
            println!("{report}");
            Ok(report.problems.is_empty())
        }
        Chore::Rules => {
            let violations = rules::inspect(&repository)?;
            for violation in &violations {
                println!("{violation}");
            }
            println!("rules: {} violations", violations.len());
            Ok(violations.is_empty())
        }
        Chore::Docs { check: true } => {
            let stale = docs::stale(&repository)?;
            if !stale.is_empty() {
                println!("{}", docs::REFRESH);
            }
            Ok(stale.is_empty())
        }
        Chore::Docs { check: false } => {
            docs::write(&repository)?;
            Ok(true)
        }
        Chore::RecordHost { output } => {
            record::run(output.as_deref())?;
            Ok(true)
        }
        Chore::Fuzz { target, seconds, jobs, minimize } => {
            let plan = fuzz::Plan { target, seconds, jobs, minimize };
            let broken = fuzz::run(&repository, &plan)?;
            for target in &broken {
                println!("{target}");
            }
            Ok(broken.is_empty())
        }
        Chore::Browser { images } => {
            prerequisites::ensure_present(&repository)?;
            let tally = browser::run(&repository)?;
            println!("{tally}");
            if images && tally.is_green() {
                browser::renew_images(&repository)?;
            }
            Ok(tally.is_green())
        }
        Chore::BenchCluster(plan) => {
            bench_cluster::run(&repository, &plan)?;
            Ok(true)
        }
        Chore::Image { output } => {
            kube::image::release(&repository, &output)?;
            Ok(true)
        }
        Chore::Kube { chore } => chore.run(&repository),
        Chore::Guest { packages, tests, environment, seconds, arguments } => {
            let plan = guest::Plan { packages, tests, environment, arguments, seconds };
            prerequisites::ensure_present(&repository)?;
            let tally = guest::run(&repository, &plan)?;
            println!("{tally}");
            Ok(tally.is_green())
        }
    }
}
