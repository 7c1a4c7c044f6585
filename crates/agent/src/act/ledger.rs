//! What did every target hold before it was changed, and which values of ours may it hold now?
//!
//! A file of JSON lines. The first names the version of the format and the boot it is about; every other is the
//! whole state of one target, and the last line of a target counts:
//!
//! ```text
//! {"tidepool-ledger":2,"boot":"5f2c..."}
//! {"target":"knob","group":"kubepods/besteffort","knob":"cfs-quota","original":"-1","ours":["50000"]}
//! {"target":"file","path":"/proc/sys/vm/watermark_scale_factor","original":"10","ours":["150"]}
//! {"target":"resctrl","group":"BE","original":null,"ours":["L3:0=f;1=f"]}
//! {"target":"core-cookie","group":"-expeller","original":null,"ours":["cookie 2"]}
//! {"target":"qdisc","device":"eth0","original":null,"ours":["htb"]}
//! {"target":"terway","path":"/var/lib/terway/qos/pod.json","original":"{}","ours":["2 bytes ..."]}
//! {"target":"knob","group":"kubepods/besteffort","knob":"cfs-quota","restored":true}
//! ```
//!
//! A line is appended *before* each write, with the value that is about to be written, and after it, with what
//! the target shows then. So whenever the process is killed, the next one knows every value of ours that a
//! target may hold. A reader that does not know a line keeps it: another version does. A file that cannot be
//! read is no reason to begin anew, because originals would be lost: nobody acts until it is repaired.
//!
//! After a reboot the kernel has forgotten its values, and so does the ledger; what is on disk stays.

mod earlier;
mod line;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use qos::wish::Target;

pub(super) use self::line::OriginalValue;
use self::line::{Header, Line};
use crate::durable;

/// The version of the format.
const VERSION: u64 = 2;

/// Control groups, sysctls and all else in the kernel do not outlive a boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A file this many times longer than needed is written anew.
const SLACK: usize = 8;
/// Shorter files are left alone.
const SHORT: usize = 4_096;
/// How many values of ours a target is thought to hold.
const MOST_OURS: usize = 16;

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("cannot use ledger {}; {REPAIR}", path.display())]
    File { path: PathBuf, source: io::Error },

    #[error("{}:{line}: expected a JSON object, found {found:?}; {REPAIR}", path.display())]
    Line { path: PathBuf, line: usize, found: String },

    #[error(
        "ledger {} has version {found} and this program knows {VERSION}; run `tidepool off` of the program \
         that wrote it, or that program",
        path.display()
    )]
    Version { path: PathBuf, found: u64 },
}

/// How a ledger is repaired.
const REPAIR: &str = "it holds the original values of what was changed on this machine, so nothing is changed \
    until it is readable: repair it, or restore by hand what it lists and move it away";

/// A target that holds, or may hold, a value of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) original: OriginalValue,
    /// What was written last, and what was announced since and may have been written or not. Empty where an
    /// earlier version did not write it down.
    pub(super) ours: Vec<String>,
}

/// What a ledger says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) entries: BTreeMap<Target, Entry>,
    /// Lines of another version, as they are.
    pub(super) unknown: Vec<String>,
}

#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    boot: String,
    journal: File,
    content: Content,
    /// Lines in the file.
    lines: usize,
    /// An append failed and may have left half a line.
    is_torn: bool,
}

/// The one ledger, for the threads that write.
pub(super) type SharedLedger = Arc<Mutex<Ledger>>;

impl Ledger {
    /// Reads the ledger, or begins one. Lists that an earlier version left beside it are carried over.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let boot = boot_id();
        let content = read(path, &boot)?;
        let failed = |source| LedgerError::File { path: path.to_owned(), source };
        let (journal, lines) = write_anew(path, &boot, &content).map_err(failed)?;
        earlier::remove_lists(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), boot, journal, content, lines, is_torn: false })
    }

    pub(super) fn entry(&self, target: &Target) -> Option<&Entry> {
        self.content.entries.get(target)
    }

    pub(super) fn targets(&self) -> impl ExactSizeIterator<Item = &Target> {
        self.content.entries.keys()
    }

    /// How much is not as it was found, as far as anybody can tell.
    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    /// Before every write: what is about to be written. The first one keeps the original.
    pub(super) fn announce(
        &mut self,
        target: &Target,
        original: &OriginalValue,
        text: &str,
    ) -> Result<(), LedgerError> {
        let known = self.content.entries.get(target).cloned();
        let mut entry =
            known.unwrap_or_else(|| Entry { original: original.clone(), ours: Vec::new() });
        // Of many announcements without a write, in many short lives, a few are enough.
        entry.ours.truncate(MOST_OURS);
        if entry.ours.last().is_none_or(|last| last != text) {
            entry.ours.push(text.to_owned());
        }
        self.put(target, Some(entry))
    }

    /// After a write, with what the target shows then.
    pub(super) fn wrote(&mut self, target: &Target, text: &str) -> Result<(), LedgerError> {
        let Some(entry) = self.content.entries.get(target) else { return Ok(()) };
        let entry = Entry { original: entry.original.clone(), ours: vec![text.to_owned()] };
        self.put(target, Some(entry))
    }

    /// The target has its original value again, is somebody else's now, or does not exist any more.
    pub(super) fn restored(&mut self, target: &Target) -> Result<(), LedgerError> {
        match self.content.entries.contains_key(target) {
            true => self.put(target, None),
            false => Ok(()),
        }
    }

    fn put(&mut self, target: &Target, entry: Option<Entry>) -> Result<(), LedgerError> {
        if self.content.entries.get(target) == entry.as_ref() {
            return Ok(());
        }
        let appended = self.append(target, entry.as_ref());
        appended.map_err(|source| LedgerError::File { path: self.path.clone(), source })?;
        match entry {
            Some(entry) => self.content.entries.insert(target.clone(), entry),
            None => self.content.entries.remove(target),
        };
        if self.lines > SHORT.max(self.len().saturating_mul(SLACK)) {
            self.write_anew().map_err(|source| {
                self.is_torn = true;
                LedgerError::File { path: self.path.clone(), source }
            })?;
        }
        Ok(())
    }

    fn append(&mut self, target: &Target, entry: Option<&Entry>) -> io::Result<()> {
        if self.is_torn {
            self.write_anew()?;
            self.is_torn = false;
        }
        let Some(line) = Line::of(target, entry) else { return Ok(()) };
        let text = line.text()? + "\n";
        self.is_torn = true;
        self.journal.write_all(text.as_bytes())?;
        if target.outlives_boot() {
            self.journal.sync_data()?;
        }
        self.is_torn = false;
        self.lines = self.lines.saturating_add(1);
        Ok(())
    }

    fn write_anew(&mut self) -> io::Result<()> {
        (self.journal, self.lines) = write_anew(&self.path, &self.boot, &self.content)?;
        Ok(())
    }

    /// A ledger to look at: whatever it is told goes nowhere.
    pub(super) fn detached(content: Content) -> io::Result<Self> {
        let path = PathBuf::from("/dev/null");
        let journal = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { path, boot: String::new(), journal, content, lines: 0, is_torn: false })
    }

    /// From now on nothing can be appended, as on a full disk.
    #[cfg(test)]
    pub(super) fn fill_disk(&mut self) {
        self.journal = OpenOptions::new().write(true).open("/dev/full").unwrap();
        fs::create_dir_all(self.path.with_added_extension("tmp")).unwrap();
    }
}

fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// What a ledger says, and the lists that an earlier version left beside it, without touching them.
pub(super) fn peek(path: &Path) -> Result<Content, LedgerError> {
    read(path, &boot_id())
}

fn read(path: &Path, boot: &str) -> Result<Content, LedgerError> {
    let failed = |source| LedgerError::File { path: path.to_owned(), source };
    let text = read_text(path).map_err(failed)?;
    let header = text.lines().next().and_then(Header::parse);
    let mut content = match header {
        Some(header) if header.version != VERSION => {
            return Err(LedgerError::Version { path: path.to_owned(), found: header.version });
        }
        Some(header) => {
            let is_same_boot = header.boot == boot;
            let mut content = parse(path, &text, is_same_boot)?;
            if !is_same_boot {
                content.entries.retain(|target, _| target.outlives_boot());
            }
            content
        }
        None => earlier::read(path, &text, boot)?,
    };
    for (target, entry) in earlier::read_lists(path, boot)? {
        content.entries.entry(target).or_insert(entry);
    }
    Ok(content)
}

/// The text of a file, nothing when it is absent. Bytes that are no text are shown where they are.
fn read_text(path: &Path) -> io::Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// Reads all lines below the header. A last line without an end was never acted upon; of a boot that is
/// over, nothing depends on lines that cannot be read.
fn parse(path: &Path, text: &str, is_strict: bool) -> Result<Content, LedgerError> {
    let mut content = Content::default();
    for (at, text) in text.split_inclusive('\n').enumerate().skip(1) {
        let Some(text) = text.strip_suffix('\n') else { break };
        match Line::parse(text) {
            Some(Ok(line)) => content.apply(line),
            Some(Err(_)) => content.unknown.push(text.to_owned()),
            None if text.trim().is_empty() || !is_strict => {}
            None => {
                let found = text.chars().take(200).collect();
                return Err(LedgerError::Line { path: path.to_owned(), line: at + 1, found });
            }
        }
    }
    Ok(content)
}

impl Content {
    /// How much is not as it was found, as far as anybody can tell.
    pub(super) fn len(&self) -> usize {
        self.entries.len().saturating_add(self.unknown.len())
    }

    fn apply(&mut self, line: Line) {
        let Some((target, entry)) = line.into_entry() else { return };
        match entry {
            Some(entry) => self.entries.insert(target, entry),
            None => self.entries.remove(&target),
        };
    }
}

/// Replaces the file by one without history; how many lines it has.
fn write_anew(path: &Path, boot: &str, content: &Content) -> io::Result<(File, usize)> {
    let mut text = Header { version: VERSION, boot: boot.to_owned() }.text()? + "\n";
    let mut lines = 1;
    for (target, entry) in &content.entries {
        let Some(line) = Line::of(target, Some(entry)) else { continue };
        text += &(line.text()? + "\n");
        lines += 1;
    }
    for unknown in &content.unknown {
        text += &format!("{unknown}\n");
        lines += 1;
    }
    durable::replace(path, text.as_bytes())?;
    Ok((OpenOptions::new().append(true).open(path)?, lines))
}

#[cfg(test)]
mod tests;
