//! What the version before this one left on disks: a ledger of knobs by other names, and four lists.
//!
//! | file | holds |
//! |---|---|
//! | `boot` | the boot that all others are about |
//! | `ledger` | a line for what was found in a knob, one before and one after every write |
//! | `files` | kernel files outside of control groups |
//! | `files.resctrl`, `files.cookies`, `files.network` | groups of resctrl; cookies; terway's files and devices |
//!
//! Each list is a JSON array and was written whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use groups::{CgroupPath, Knob};
use qos::wish::{KernelFile, Target};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Content, Entry, LedgerError, OriginalValue, read_text};

const BOOT: &str = "boot";
const FILES: &str = "files";
const RESCTRL: &str = "files.resctrl";
const COOKIES: &str = "files.cookies";
const NETWORK: &str = "files.network";

/// The names of knobs then, with those of now.
const KNOBS: [(&str, &str); 31] = [
    ("CpuShares", "cpu-shares"),
    ("CfsQuota", "cfs-quota"),
    ("CfsPeriod", "cfs-period"),
    ("CfsBurst", "cfs-burst"),
    ("BvtWarp", "bvt-warp"),
    ("CpuIdle", "cpu-idle"),
    ("CpusetCpus", "cpuset-cpus"),
    ("CpusetMems", "cpuset-mems"),
    ("MemoryLimit", "memory-limit"),
    ("MemoryMin", "memory-min"),
    ("MemoryLow", "memory-low"),
    ("MemoryHigh", "memory-high"),
    ("MemoryReclaim", "memory-reclaim"),
    ("WmarkRatio", "wmark-ratio"),
    ("WmarkScaleFactor", "wmark-scale-factor"),
    ("WmarkMinAdj", "wmark-min-adj"),
    ("MemoryPriority", "memory-priority"),
    ("UsePriorityOom", "use-priority-oom"),
    ("OomGroup", "oom-group"),
    ("PagecacheLimitEnable", "pagecache-limit-enable"),
    ("PagecacheLimitSize", "pagecache-limit-size"),
    ("PagecacheLimitSync", "pagecache-limit-sync"),
    ("ReadBps", "read-bps"),
    ("WriteBps", "write-bps"),
    ("ReadIops", "read-iops"),
    ("WriteIops", "write-iops"),
    ("IoWeight", "io-weight"),
    ("IoCostQos", "io-cost-qos"),
    ("IoCostModel", "io-cost-model"),
    ("NetClassId", "net-class-id"),
    ("Frozen", "frozen"),
];

#[derive(Debug, Deserialize)]
struct KnobLine {
    group: String,
    knob: String,
    #[serde(flatten)]
    step: Step,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Step {
    Found(String),
    Writes(String),
    Wrote(String),
    Returned(#[expect(dead_code, reason = "always true")] bool),
}

#[derive(Debug, Deserialize)]
struct FileItem {
    file: FileName,
    found: String,
    ours: String,
}

#[derive(Debug, Deserialize)]
struct FileName {
    path: String,
    #[serde(default)]
    word: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ResctrlItem {
    group: String,
    found: Option<ResctrlGroup>,
}

#[derive(Debug, Deserialize)]
struct ResctrlGroup {
    schemata: String,
    tasks: BTreeSet<u32>,
}

#[derive(Debug, Deserialize)]
struct CookieItem {
    group: String,
    maker: u32,
    cookie: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NetworkItem {
    File { path: String, found: Option<String> },
    Queue { device: String },
}

/// Whether what lies beside the ledger is about another boot; without a mark that cannot be told.
fn is_of_another_boot(path: &Path, boot: &str) -> Result<bool, LedgerError> {
    let path = path.with_file_name(BOOT);
    match read_text(&path) {
        Ok(mark) => Ok(!mark.is_empty() && mark.trim() != boot),
        Err(source) => Err(LedgerError::File { path, source }),
    }
}

/// What a ledger of that version says.
pub(super) fn read(path: &Path, text: &str, boot: &str) -> Result<Content, LedgerError> {
    let mut content = Content::default();
    if is_of_another_boot(path, boot)? {
        return Ok(content);
    }
    for (at, text) in text.split_inclusive('\n').enumerate() {
        // A last line that was cut off was never acted upon.
        let Some(text) = text.strip_suffix('\n') else { break };
        let is_object =
            || serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value.is_object());
        let line = serde_json::from_str::<KnobLine>(text).ok();
        match line.and_then(|line| Some((knob(&line)?, line.step))) {
            Some((target, step)) => apply(&mut content.entries, target, step),
            None if is_object() => content.unknown.push(text.to_owned()),
            None if text.trim().is_empty() => {}
            None => {
                let found = text.chars().take(200).collect();
                return Err(LedgerError::Line { path: path.to_owned(), line: at + 1, found });
            }
        }
    }
    Ok(content)
}

fn knob(line: &KnobLine) -> Option<Target> {
    let (_, name) = KNOBS.iter().find(|(debug, _)| *debug == line.knob)?;
    Some(Target::knob(CgroupPath::new(&line.group), Knob::from_name(name)?))
}

fn apply(entries: &mut BTreeMap<Target, Entry>, target: Target, step: Step) {
    match step {
        Step::Found(found) => {
            let original = OriginalValue::Text(found);
            entries.entry(target).or_insert(Entry { original, ours: Vec::new() });
        }
        Step::Writes(text) => {
            if let Some(entry) = entries.get_mut(&target) {
                entry.ours.push(text);
            }
        }
        Step::Wrote(text) => {
            if let Some(entry) = entries.get_mut(&target) {
                entry.ours = vec![text];
            }
        }
        Step::Returned(_) => {
            entries.remove(&target);
        }
    }
}

/// What the four lists say.
pub(super) fn read_lists(path: &Path, boot: &str) -> Result<Vec<(Target, Entry)>, LedgerError> {
    let mut all: Vec<(Target, Entry)> = Vec::new();
    all.extend(list(path, FILES)?.into_iter().map(of_file));
    all.extend(list(path, RESCTRL)?.into_iter().map(of_resctrl));
    all.extend(list(path, COOKIES)?.into_iter().map(of_cookie));
    all.extend(list(path, NETWORK)?.into_iter().map(of_network));
    let is_over = is_of_another_boot(path, boot)?;
    all.retain(|(target, _)| !is_over || target.outlives_boot());
    Ok(all)
}

fn list<Item: DeserializeOwned>(ledger: &Path, name: &str) -> Result<Vec<Item>, LedgerError> {
    let path = ledger.with_file_name(name);
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(source) => return Err(LedgerError::File { path, source }),
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text)
        .map_err(|error| LedgerError::File { path, source: io::Error::from(error) })
}

fn of_file(FileItem { file, found, ours }: FileItem) -> (Target, Entry) {
    let target = Target::File(KernelFile { path: file.path, word: file.word });
    (target, Entry { original: OriginalValue::Text(found), ours: vec![ours] })
}

fn of_resctrl(ResctrlItem { group, found }: ResctrlItem) -> (Target, Entry) {
    let original = match found {
        Some(ResctrlGroup { schemata, tasks }) => OriginalValue::CacheGroup { schemata, tasks },
        None => OriginalValue::Absent,
    };
    (Target::CacheGroup(group), Entry { original, ours: Vec::new() })
}

fn of_cookie(CookieItem { group, maker, cookie }: CookieItem) -> (Target, Entry) {
    // A cookie was announced with the process it was to be made for.
    let ours = cookie.map_or_else(|| format!("pid {maker}"), |cookie| format!("cookie {cookie}"));
    (Target::CoreCookie(group), Entry { original: OriginalValue::Absent, ours: vec![ours] })
}

fn of_network(item: NetworkItem) -> (Target, Entry) {
    match item {
        NetworkItem::File { path, found } => {
            let original = found.map_or(OriginalValue::Absent, OriginalValue::Text);
            (Target::TerwayFile(path), Entry { original, ours: Vec::new() })
        }
        NetworkItem::Queue { device } => {
            let entry = Entry { original: OriginalValue::Absent, ours: Vec::new() };
            (Target::Qdisc(device), entry)
        }
    }
}

/// Takes the lists away, once the ledger has what they say.
pub(super) fn remove_lists(ledger: &Path) -> io::Result<()> {
    let names = [FILES, RESCTRL, COOKIES, NETWORK, BOOT];
    let paths: Vec<PathBuf> = names.iter().map(|name| ledger.with_file_name(name)).collect();
    for path in paths {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
