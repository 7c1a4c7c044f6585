//! The online service: every request costs it the same CPU time.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Context;
use clap::Args;

use super::work;
use crate::Outcome;

/// Answer HTTP requests on loopback, one thread for each connection
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File that will hold the address
    #[arg(long)]
    address: PathBuf,
    /// Rounds of work for one request
    #[arg(long)]
    rounds: u64,
}

/// Small and always the same.
pub(super) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        announce(&self.address, &listener.local_addr()?.to_string())?;
        for connection in listener.incoming() {
            let connection = connection?;
            thread::spawn(move || answer_all(connection, self.rounds));
        }
        Ok(Outcome::Done)
    }
}

/// Readers see all of it or nothing.
fn announce(path: &Path, address: &str) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    let written = fs::write(&draft, address).and_then(|()| fs::rename(&draft, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Until the client goes; what it does wrong is its own loss.
fn answer_all(connection: TcpStream, rounds: u64) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut requests = BufReader::new(connection.try_clone()?);
    let mut answers = connection;
    let mut line = String::new();
    loop {
        // A request is a head without a body; it ends with an empty line.
        loop {
            line.clear();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
        }
        work::spin(rounds);
        answers.write_all(ANSWER)?;
    }
}
