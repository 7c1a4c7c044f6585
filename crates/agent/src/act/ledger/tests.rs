use std::collections::BTreeSet;

use groups::{CgroupPath, Knob};
use qos::wish::KernelFile;
use tempfile::TempDir;

use super::*;

fn quota(group: &str) -> Target {
    Target::knob(CgroupPath::new(group), Knob::CfsQuota)
}

fn text(text: &str) -> OriginalValue {
    OriginalValue::Text(text.to_owned())
}

fn entry(original: OriginalValue, ours: &[&str]) -> Entry {
    Entry { original, ours: ours.iter().map(|text| (*text).to_owned()).collect() }
}

/// A directory with a ledger of this boot that has these lines.
fn with_lines(lines: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let header = Header { version: VERSION, boot: boot_id() }.text().unwrap();
    fs::write(&path, format!("{header}\n{lines}")).unwrap();
    (dir, path)
}

#[test]
fn the_next_process_knows_what_was_there_and_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/ledger");
    let (changed, restored) = (quota("changed"), quota("restored"));
    let mut ledger = Ledger::open(&path).unwrap();
    for target in [&changed, &restored] {
        for value in ["1000", "2000"] {
            ledger.announce(target, &text("-1"), value).unwrap();
            ledger.wrote(target, value).unwrap();
        }
        ledger.announce(target, &text("not this one"), "3000").unwrap();
    }
    ledger.restored(&restored).unwrap();
    drop(ledger);

    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.entry(&changed), Some(&entry(text("-1"), &["2000", "3000"])));
    assert_eq!(ledger.targets().collect::<Vec<_>>(), [&changed]);
}

/// One target of every kind, as it is on disks: a name that is changed here is forgotten there.
#[test]
fn names_that_are_on_disk_stay() {
    let tasks = BTreeSet::from([7, 9]);
    let theirs = OriginalValue::CacheGroup { schemata: "L3:0=7f0".to_owned(), tasks };
    let sysctl = KernelFile::whole("/proc/sys/vm/watermark_scale_factor");
    let feature = KernelFile::word("/sys/kernel/debug/sched/features", "HRTICK");
    let rows = [
        (
            quota("kubepods/besteffort"),
            text("-1"),
            "50000",
            r#"{"target":"knob","group":"kubepods/besteffort","knob":"cfs-quota","original":"-1","ours":["50000"]}"#,
        ),
        (
            Target::File(sysctl),
            text("10"),
            "150",
            r#"{"target":"file","path":"/proc/sys/vm/watermark_scale_factor","original":"10","ours":["150"]}"#,
        ),
        (
            Target::File(feature),
            text("NO_HRTICK"),
            "HRTICK",
            r#"{"target":"file","path":"/sys/kernel/debug/sched/features","word":"HRTICK","original":"NO_HRTICK","ours":["HRTICK"]}"#,
        ),
        (
            Target::CacheGroup("BE".to_owned()),
            OriginalValue::Absent,
            "L3:0=f",
            r#"{"target":"resctrl","group":"BE","original":null,"ours":["L3:0=f"]}"#,
        ),
        (
            Target::CacheGroup("LS".to_owned()),
            theirs,
            "L3:0=f",
            r#"{"target":"resctrl","group":"LS","original":{"schemata":"L3:0=7f0","tasks":[7,9]},"ours":["L3:0=f"]}"#,
        ),
        (
            Target::CoreCookie("-expeller".to_owned()),
            OriginalValue::Absent,
            "cookie 2",
            r#"{"target":"core-cookie","group":"-expeller","original":null,"ours":["cookie 2"]}"#,
        ),
        (
            Target::Qdisc("eth0".to_owned()),
            OriginalValue::Absent,
            "htb",
            r#"{"target":"qdisc","device":"eth0","original":null,"ours":["htb"]}"#,
        ),
        (
            Target::TerwayFile("/var/lib/terway/qos/pod.json".to_owned()),
            text("{}"),
            "2 bytes",
            r#"{"target":"terway","path":"/var/lib/terway/qos/pod.json","original":"{}","ours":["2 bytes"]}"#,
        ),
    ];
    let (_dir, path) = with_lines("");
    let mut ledger = Ledger::open(&path).unwrap();
    for (target, original, ours, _) in &rows {
        ledger.announce(target, original, ours).unwrap();
    }
    let restored =
        r#"{"target":"knob","group":"kubepods/besteffort","knob":"cfs-quota","restored":true}"#;
    ledger.restored(&rows[0].0).unwrap();
    let header = format!(r#"{{"tidepool-ledger":2,"boot":"{}"}}"#, boot_id());
    let lines = rows.iter().map(|(_, _, _, line)| *line);
    let want: Vec<&str> = [header.as_str()].into_iter().chain(lines).chain([restored]).collect();
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(written.lines().collect::<Vec<_>>(), want);
    drop(ledger);

    let ledger = Ledger::open(&path).unwrap();
    for (target, original, ours, _) in rows.into_iter().skip(1) {
        assert_eq!(ledger.entry(&target), Some(&entry(original, &[ours])), "{target}");
    }
    assert_eq!(ledger.len(), 7);
}

#[test]
fn lines_of_another_version_are_kept_through_every_rewrite() {
    let unknown = concat!(
        r#"{"target":"knob","group":"a","knob":"no-such-knob","original":"7","ours":[]}"#,
        "\n",
        r#"{"target":"dma-buf","card":0,"original":"1"}"#,
        "\n"
    );
    let known = r#"{"target":"file","path":"/a","original":"1","ours":["2"]}"#;
    let (_dir, path) = with_lines(&format!("{unknown}{known}\n"));
    for _ in 0..2 {
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!((ledger.targets().len(), ledger.len()), (1, 3));
        for value in 0..2 * SHORT {
            ledger.announce(&quota("b"), &text("-1"), &value.to_string()).unwrap();
            ledger.wrote(&quota("b"), &value.to_string()).unwrap();
        }
        ledger.restored(&quota("b")).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains(unknown), "{written}");
    assert!(written.lines().count() <= SHORT + 2, "it does not grow without bound");
}

#[test]
fn a_ledger_that_lost_something_is_refused_and_left_as_it_is() {
    let good = r#"{"target":"file","path":"/a","original":"1","ours":["2"]}"#;
    let cases = [
        ("no JSON", format!("{good}\n\u{0}\u{0}\n{good}\n"), Some(3)),
        ("half a line", format!("{{\"target\":\"fi\n{good}\n"), Some(2)),
        ("no object", "17\n".to_owned(), Some(2)),
        ("cut off at the end", format!("{good}\n{{\"target\":\"fi"), None),
        ("empty lines", format!("\n{good}\n\n"), None),
    ];
    for (name, lines, want) in cases {
        let (_dir, path) = with_lines(&lines);
        let before = fs::read(&path).unwrap();
        match (Ledger::open(&path), want) {
            (Ok(ledger), None) => assert_eq!(ledger.len(), 1, "{name}"),
            (Err(LedgerError::Line { line, .. }), Some(want)) => {
                assert_eq!(line, want, "{name}");
                assert_eq!(fs::read(&path).unwrap(), before, "{name}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
    let (_dir, path) = with_lines(&format!("{good}\n"));
    let text = fs::read_to_string(&path).unwrap();
    let headless = text.replacen("{\"tidepool-ledger", "\u{0}\u{0}", 1);
    fs::write(&path, &headless).unwrap();
    assert!(matches!(Ledger::open(&path), Err(LedgerError::Line { line: 1, .. })), "no header");
    assert_eq!(fs::read_to_string(&path).unwrap(), headless);
    fs::write(&path, text.lines().last().unwrap().to_owned() + "\n").unwrap();
    assert_eq!(Ledger::open(&path).unwrap().len(), 1, "kept for whoever knows it");
    assert_eq!(Ledger::open(&path).unwrap().targets().len(), 1);

    let (dir, path) = with_lines("");
    fs::write(&path, "{\"tidepool-ledger\":3,\"boot\":\"\"}\n").unwrap();
    assert!(matches!(Ledger::open(&path), Err(LedgerError::Version { found: 3, .. })));
    let is_a_dir = Ledger::open(dir.path()).unwrap_err();
    assert!(is_a_dir.to_string().contains("repair it, or restore by hand"), "{is_a_dir}");
}

#[test]
fn after_a_reboot_only_what_is_on_disk_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let lines = concat!(
        r#"{"tidepool-ledger":2,"boot":"an earlier one"}"#,
        "\n",
        r#"{"target":"knob","group":"a","knob":"cfs-quota","original":"-1","ours":["5"]}"#,
        "\n\u{0}\u{0}\n",
        r#"{"target":"terway","path":"/t","original":null,"ours":[]}"#,
        "\n",
    );
    fs::write(&path, lines).unwrap();
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.targets().collect::<Vec<_>>(), [&Target::TerwayFile("/t".to_owned())]);
}

#[test]
fn half_a_line_of_a_full_disk_is_mended_before_the_next() {
    let (_dir, path) = with_lines("");
    let mut ledger = Ledger::open(&path).unwrap();
    ledger.announce(&quota("a"), &text("-1"), "5").unwrap();
    ledger.fill_disk();
    ledger.announce(&quota("b"), &text("-1"), "5").unwrap_err();
    assert_eq!(ledger.entry(&quota("b")), None);
    fs::remove_dir(path.with_added_extension("tmp")).unwrap();
    ledger.announce(&quota("b"), &text("-1"), "6").unwrap();
    drop(ledger);
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.entry(&quota("b")), Some(&entry(text("-1"), &["6"])));
    assert_eq!(ledger.len(), 2);
}

/// Bytes that version e336159 wrote; only terway's directory was another.
fn lists() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let all: [(&str, &[u8]); 5] = [
        ("ledger", include_bytes!("../../../../../fixtures/ledger/e336159/ledger")),
        ("files", include_bytes!("../../../../../fixtures/ledger/e336159/files")),
        ("files.resctrl", include_bytes!("../../../../../fixtures/ledger/e336159/files.resctrl")),
        ("files.cookies", include_bytes!("../../../../../fixtures/ledger/e336159/files.cookies")),
        ("files.network", include_bytes!("../../../../../fixtures/ledger/e336159/files.network")),
    ];
    for (name, bytes) in all {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    fs::write(dir.path().join("boot"), fs::read_to_string(BOOT_ID).unwrap()).unwrap();
    dir
}

fn shown(ledger: &Content) -> Vec<String> {
    let entries = ledger.entries.iter();
    entries
        .map(|(target, entry)| format!("{target} {:?} {:?}", entry.original, entry.ours))
        .collect()
}

#[test]
fn the_five_lists_of_the_version_before_are_carried_over_once() {
    let dir = lists();
    let path = dir.path().join("ledger");
    let want = [
        r#"/kubepods/besteffort:cfs-quota Text("max 100000") ["1040000 100000"]"#,
        r#"/kubepods/besteffort:cpuset-cpus Text("") ["0-2"]"#,
        r#"/kubepods/besteffort/podjob:cpuset-cpus Text("") ["0-2"]"#,
        r#"/kubepods/besteffort/podjob/job:cpuset-cpus Text("") ["0-2"]"#,
        r#"/kubepods/besteffort/podjob/sandbox:cpuset-cpus Text("") ["0-2"]"#,
        r#"/proc/sys/vm/watermark_scale_factor Text("10") ["150"]"#,
        r#"/sys/kernel/debug/sched/features:HRTICK Text("NO_HRTICK") ["HRTICK"]"#,
        r#"resctrl:BE Absent []"#,
        r#"resctrl:LS CacheGroup { schemata: "L3:0=7f0;1=7f0\nMB:0=50;1=50\n", tasks: {7} } []"#,
        r#"core-cookie: Absent ["cookie 1"]"#,
        r#"core-cookie:-expeller Absent ["cookie 2"]"#,
        r#"qdisc:eth0 Absent []"#,
        r#"/var/lib/terway/qos/global_bps_config Absent []"#,
        r#"/var/lib/terway/qos/pod.json Text("{}") []"#,
    ];
    assert_eq!(shown(&peek(&path).unwrap()), want);
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(shown(&ledger.content), want);
    drop(ledger);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["ledger"]);
    assert_eq!(shown(&Ledger::open(&path).unwrap().content), want);
}

#[test]
fn a_start_that_was_killed_while_it_carried_over_is_done_again() {
    let dir = lists();
    let path = dir.path().join("ledger");
    let want = shown(&peek(&path).unwrap());
    let killed = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
    }
    drop(Ledger::open(&path).unwrap());
    fs::copy(&path, killed.path().join("ledger")).unwrap();
    let ledger = Ledger::open(&killed.path().join("ledger")).unwrap();
    assert_eq!(shown(&ledger.content), want);
}

#[test]
fn lists_that_cannot_be_read_or_are_of_another_boot_lose_nothing() {
    for list in ["files", "files.resctrl", "files.cookies", "files.network"] {
        let dir = lists();
        let (path, list) = (dir.path().join("ledger"), dir.path().join(list));
        let before = fs::read(&path).unwrap();
        fs::write(&list, "[{").unwrap();
        let refused = Ledger::open(&path).unwrap_err();
        assert!(matches!(&refused, LedgerError::File { path, .. } if *path == list), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), before, "nothing is begun anew");
    }
    let dir = lists();
    fs::write(dir.path().join("boot"), "an earlier one\n").unwrap();
    let ledger = Ledger::open(&dir.path().join("ledger")).unwrap();
    let targets: Vec<String> = ledger.targets().map(ToString::to_string).collect();
    let terway = ["/var/lib/terway/qos/global_bps_config", "/var/lib/terway/qos/pod.json"];
    assert_eq!(targets, terway, "the kernel forgets, a disk does not");
}
