use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use proptest::prelude::*;

use super::*;
use crate::node::log::Writer;
use crate::node::record::LogFile;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Lines 0 to `count`, one a second, in files of about `max_bytes`.
fn log(dir: &Path, count: i64, max_bytes: u64) -> PathBuf {
    let path = dir.join("0.log");
    let mut writer = Writer::new(LogFile { path: path.clone(), max_bytes, max_files: 100 });
    for number in 0..count {
        let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
        writer.push(stream, format!("line {number}\n").as_bytes(), at(number));
    }
    path
}

fn all(path: PathBuf, options: LogOptions) -> String {
    let mut reader = Reader::new(path, options);
    let mut text = Vec::new();
    loop {
        let chunk = reader.chunk().unwrap();
        if chunk.is_empty() {
            break;
        }
        text.extend(chunk);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn every_option_of_kubectl_logs() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path(), 6, 120);
    let none = LogOptions::default;
    let cases = [
        ("everything", none(), "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\n"),
        ("the last two", LogOptions { tail_lines: Some(2), ..none() }, "line 4\nline 5\n"),
        ("none of the past", LogOptions { tail_lines: Some(0), ..none() }, ""),
        (
            "more than there are",
            LogOptions { tail_lines: Some(99), ..none() },
            "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\n",
        ),
        ("from a time on", LogOptions { since: Some(at(4)), ..none() }, "line 4\nline 5\n"),
        ("after the end", LogOptions { since: Some(at(9)), ..none() }, ""),
        ("so many bytes", LogOptions { limit_bytes: Some(9), ..none() }, "line 0\nli"),
        ("no bytes", LogOptions { limit_bytes: Some(0), ..none() }, ""),
        (
            "one stream",
            LogOptions { streams: StreamChoice::Stderr, ..none() },
            "line 1\nline 3\nline 5\n",
        ),
        (
            "with times",
            LogOptions { timestamps: true, tail_lines: Some(1), ..none() },
            "2027-01-15T08:00:05.000000000Z line 5\n",
        ),
    ];
    for (name, options, want) in cases {
        assert_eq!(all(path.clone(), options), want, "{name}");
    }
    assert_eq!(all(dir.path().join("other.log"), none()), "", "no file is no output");
}

#[test]
fn parts_are_put_together_and_stamped_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0.log");
    let mut writer = Writer::new(LogFile { path: path.clone(), max_bytes: 1 << 30, max_files: 1 });
    let long = "x".repeat(40_000);
    writer.push(Stream::Stdout, format!("{long}\nshort\nno end").as_bytes(), at(0));
    writer.finish(Stream::Stdout, at(1));
    assert_eq!(all(path.clone(), LogOptions::default()), format!("{long}\nshort\nno end"));
    let stamped = all(path, LogOptions { timestamps: true, ..LogOptions::default() });
    assert_eq!(stamped.matches("2027-01-15T08:00:0").count(), 3);
}

#[test]
fn last_words_are_short() {
    let dir = tempfile::tempdir().unwrap();
    let words = last_words(&log(dir.path(), 200, 1 << 20));
    assert!(words.starts_with("line 120\n") && words.ends_with("line 199\n"), "{words}");
    assert_eq!(last_words(&dir.path().join("none")), "");
}

#[tokio::test]
async fn following_goes_through_rotation_and_ends_with_the_container() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0.log");
    let over = Arc::new(AtomicBool::new(false));
    let is_over = {
        let over = over.clone();
        move || over.load(Ordering::SeqCst)
    };
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = read(path.clone(), options, is_over);
    let mut writer = Writer::new(LogFile { path, max_bytes: 100, max_files: 3 });
    let mut seen = String::new();
    for number in 0..9 {
        writer.push(Stream::Stdout, format!("line {number}\n").as_bytes(), at(number));
        let want = format!("line {number}\n");
        while !seen.ends_with(&want) {
            let piece = stream.next().await.unwrap().unwrap();
            seen.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
    writer.push(Stream::Stdout, b"last\n", at(9));
    over.store(true, Ordering::SeqCst);
    while let Some(piece) = stream.next().await {
        seen.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    let want: String = (0..9).map(|number| format!("line {number}\n")).collect();
    assert_eq!(seen, want + "last\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The tail is the end of the whole, wherever the files were cut.
    #[test]
    fn a_tail_is_a_suffix(count in 0..40_i64, max_bytes in 1..600_u64, lines in 0..50_u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = log(dir.path(), count, max_bytes);
        let whole = all(path.clone(), LogOptions::default());
        let tail = all(path, LogOptions { tail_lines: Some(lines), ..LogOptions::default() });
        prop_assert!(whole.ends_with(&tail));
        let want = lines.min(u64::try_from(count).unwrap());
        prop_assert_eq!(tail.lines().count() as u64, want);
    }
}
