//! Who may share a core with whom? Core scheduling.
//!
//! Every thread has a cookie, and hyper-threads of one core run threads of one cookie at a time; zero is
//! everybody's who was given none. A cookie cannot be chosen: one is made for a process, others are given
//! the same by a thread that takes it from the first and hands it on. Children start with their parent's.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{
    CoreSchedulingScope, core_scheduling_cookie, create_core_scheduling_cookie, gettid,
    pull_core_scheduling_cookie, push_core_scheduling_cookie,
};

/// A cookie as the kernel shows it.
pub type Cookie = u64;

/// The cookie of whoever was given none.
pub const NONE: Cookie = 0;

/// What can be done to cookies. Processes are whole: all of their threads.
pub trait Cookies: Debug + Send {
    /// Whether the kernel has core scheduling, and more than one thread a core.
    fn probe(&self) -> io::Result<()>;

    fn get(&self, process: u32) -> io::Result<Cookie>;

    /// Gives a process a cookie that nobody else has.
    fn create(&self, process: u32) -> io::Result<()>;

    /// Gives a process's cookie to others; those that failed, with the reason.
    fn share(&self, from: u32, to: &[u32]) -> io::Result<Vec<(u32, io::Error)>>;

    /// Gives processes the cookie of everybody; those that failed, with the reason.
    fn clear(&self, processes: &[u32]) -> io::Result<Vec<(u32, io::Error)>>;
}

/// The kernel this process runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelCookies;

fn pid(process: u32) -> io::Result<Pid> {
    let raw = i32::try_from(process).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| Errno::SRCH.into())
}

fn push(processes: &[u32]) -> Vec<(u32, io::Error)> {
    let give = |process: u32| {
        Ok::<_, io::Error>(push_core_scheduling_cookie(
            pid(process)?,
            CoreSchedulingScope::ThreadGroup,
        )?)
    };
    processes.iter().filter_map(|process| Some((*process, give(*process).err()?))).collect()
}

/// A thread takes a cookie to hand it on, so it must be one that nobody needs afterwards.
fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("cookies".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of cookies panicked")))
    })
}

impl Cookies for KernelCookies {
    fn probe(&self) -> io::Result<()> {
        core_scheduling_cookie(gettid(), CoreSchedulingScope::Thread)?;
        Ok(())
    }

    fn get(&self, process: u32) -> io::Result<Cookie> {
        Ok(core_scheduling_cookie(pid(process)?, CoreSchedulingScope::Thread)?)
    }

    fn create(&self, process: u32) -> io::Result<()> {
        Ok(create_core_scheduling_cookie(pid(process)?, CoreSchedulingScope::ThreadGroup)?)
    }

    fn share(&self, from: u32, to: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        let from = pid(from)?;
        on_own_thread(|| {
            pull_core_scheduling_cookie(from, CoreSchedulingScope::Thread)?;
            Ok(push(to))
        })
    }

    fn clear(&self, processes: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        on_own_thread(|| {
            // A new thread has its parent's, which is none unless somebody gave us one.
            if core_scheduling_cookie(gettid(), CoreSchedulingScope::Thread)? != NONE {
                return Err(io::Error::other("this process has a cookie itself"));
            }
            Ok(push(processes))
        })
    }
}

/// Cookies of a fake host. Clones look at the same.
#[derive(Debug, Clone, Default)]
pub struct FakeCookies(Arc<Mutex<Fake>>);

#[derive(Debug, Default)]
struct Fake {
    /// Why the kernel has none.
    refuses: Option<Errno>,
    processes: BTreeMap<u32, Cookie>,
    /// Processes that are not ours to change.
    guarded: BTreeMap<u32, Errno>,
    last: Cookie,
    changes: usize,
}

impl FakeCookies {
    /// A kernel without core scheduling.
    pub fn refusing(errno: Errno) -> Self {
        let fake = Self::default();
        fake.lock().refuses = Some(errno);
        fake
    }

    /// A process starts, with its parent's cookie or none.
    pub fn start(&self, process: u32, cookie: Cookie) {
        let mut fake = self.lock();
        fake.last = fake.last.max(cookie);
        fake.processes.insert(process, cookie);
    }

    pub fn end(&self, process: u32) {
        self.lock().processes.remove(&process);
    }

    /// From now on changes of this process fail.
    pub fn guard(&self, process: u32, errno: Errno) {
        self.lock().guarded.insert(process, errno);
    }

    /// The cookie of every process.
    pub fn all(&self) -> BTreeMap<u32, Cookie> {
        self.lock().processes.clone()
    }

    /// How often a cookie was changed.
    pub fn changes(&self) -> usize {
        self.lock().changes
    }

    fn lock(&self) -> MutexGuard<'_, Fake> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fake {
    fn cookie(&self, process: u32) -> io::Result<Cookie> {
        if let Some(errno) = self.refuses {
            return Err(errno.into());
        }
        self.processes.get(&process).copied().ok_or_else(|| Errno::SRCH.into())
    }

    fn give(&mut self, process: u32, cookie: Cookie) -> io::Result<()> {
        self.cookie(process)?;
        if let Some(errno) = self.guarded.get(&process) {
            return Err((*errno).into());
        }
        self.changes += 1;
        self.processes.insert(process, cookie);
        Ok(())
    }

    fn give_all(&mut self, processes: &[u32], cookie: Cookie) -> Vec<(u32, io::Error)> {
        let mut failed = Vec::new();
        for process in processes {
            if let Err(error) = self.give(*process, cookie) {
                failed.push((*process, error));
            }
        }
        failed
    }
}

impl Cookies for FakeCookies {
    fn probe(&self) -> io::Result<()> {
        self.lock().refuses.map_or(Ok(()), |errno| Err(errno.into()))
    }

    fn get(&self, process: u32) -> io::Result<Cookie> {
        self.lock().cookie(process)
    }

    fn create(&self, process: u32) -> io::Result<()> {
        let mut fake = self.lock();
        fake.last += 1;
        let cookie = fake.last;
        fake.give(process, cookie)
    }

    fn share(&self, from: u32, to: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        let mut fake = self.lock();
        let cookie = fake.cookie(from)?;
        Ok(fake.give_all(to, cookie))
    }

    fn clear(&self, processes: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        Ok(self.lock().give_all(processes, NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Either the kernel has it, and then a process of ours can be given a cookie and lose it again,
    /// or it says why not; the machine decides which.
    #[test]
    fn the_kernel_gives_and_takes_cookies_or_says_why_not() {
        let kernel = KernelCookies;
        if let Err(error) = kernel.probe() {
            let errno = Errno::from_io_error(&error);
            assert!(matches!(errno, Some(Errno::INVAL | Errno::NODEV | Errno::PERM)), "{error}");
            assert!(kernel.create(std::process::id()).is_err(), "what was learned holds");
            println!("skipped: core scheduling: {error}");
            return;
        }
        let mut sleeper =
            std::process::Command::new("sleep").arg("60").spawn().expect("a process to try with");
        let process = sleeper.id();
        kernel.create(process).unwrap();
        assert_ne!(kernel.get(process).unwrap(), NONE);
        assert!(kernel.clear(&[process]).unwrap().is_empty());
        assert_eq!(kernel.get(process).unwrap(), NONE);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn a_fake_hands_cookies_on() {
        let fake = FakeCookies::default();
        for process in [1, 2, 3] {
            fake.start(process, NONE);
        }
        fake.create(1).unwrap();
        fake.guard(3, Errno::PERM);
        let failed = fake.share(1, &[2, 3, 4]).unwrap();
        assert_eq!(failed.iter().map(|(process, _)| *process).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(fake.all(), BTreeMap::from([(1, 1), (2, 1), (3, 0)]));
        fake.create(2).unwrap();
        assert_eq!(fake.get(2).unwrap(), 2, "nobody else has it");
        assert!(fake.clear(&[1, 2]).unwrap().is_empty());
        assert_eq!(fake.all(), BTreeMap::from([(1, 0), (2, 0), (3, 0)]));
        assert!(FakeCookies::refusing(Errno::INVAL).probe().is_err());
    }
}
