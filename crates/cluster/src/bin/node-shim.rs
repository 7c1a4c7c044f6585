//! The node's shim as a program of its own, for the tests of this crate. `tidepool` carries the
//! same entry point and starts itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    cluster::node::shim_main(std::env::args_os().skip(1))
}
