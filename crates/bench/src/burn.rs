//! A process that uses CPU when told to: the load of benches.
//!
//! Each line on standard input is a number of milliseconds to burn with this many threads; the answer
//! is a line with the work done. `forever` burns until the input ends. It ends with its input, so no
//! load outlives the bench that started it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

/// Use CPU as told on standard input
#[derive(Debug, Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut output = io::stdout().lock();
        let mut line = String::new();
        while io::stdin().read_line(&mut line)? > 0 {
            if line.trim() == "forever" {
                self.burn_until_input_ends();
                return Ok(());
            }
            let work = self.burn(Duration::from_millis(line.trim().parse()?));
            line.clear();
            writeln!(output, "{work}")?;
            output.flush()?;
        }
        Ok(())
    }

    fn burn(&self, time: Duration) -> u64 {
        let end = Instant::now() + time;
        thread::scope(|scope| {
            let burn = || work_while(|| Instant::now() < end);
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(burn)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
        })
    }

    fn burn_until_input_ends(&self) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| work_while(|| !is_over.load(Ordering::Relaxed)));
            }
            // Whatever comes, it is the end.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

/// Units of work done while the condition holds.
fn work_while(go_on: impl Fn() -> bool) -> u64 {
    let mut units = 0;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    while go_on() {
        for _ in 0..2_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        units += 1;
    }
    std::hint::black_box(state);
    units
}
