//! Replacing all files of a volume at once.
//!
//! ```text
//! <volume>/..data -> ..<time>          swapped in one step
//! <volume>/..<time>/x                  the files
//! <volume>/x -> ..data/x               what the container opens
//! ```
//!
//! A reader that holds `..data` sees either all old files or all new ones. Programs that watch mounted
//! configuration know this layout from kubelet.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::payload::Payload;

const DATA: &str = "..data";

/// Makes the volume's content equal to the payload, if it is not.
pub(super) fn write(dir: &Path, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    let before = fs::read_link(dir.join(DATA)).ok().map(|link| dir.join(link));
    if before.as_deref().is_some_and(|before| is_equal(before, payload)) {
        return Ok(());
    }
    make_dir(dir, group)?;
    let name = format!("..{}", Timestamp::now().strftime("%Y_%m_%d_%H_%M_%S.%N"));
    let fresh = dir.join(&name);
    fs::DirBuilder::new().mode(0o755).create(&fresh)?;
    for (path, file) in &payload.0 {
        let target = fresh.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, &file.content)?;
        // The owning group of the volume may read what its owner may.
        let mode = if group.is_some() { file.mode | 0o440 } else { file.mode };
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        chown(&target, None, group)?;
    }
    let swap = dir.join("..data_tmp");
    let _ = fs::remove_file(&swap);
    symlink(&name, &swap)?;
    fs::rename(&swap, dir.join(DATA))?;
    link_entries(dir, payload)?;
    if let Some(before) = before {
        fs::remove_dir_all(before)?;
    }
    Ok(())
}

fn make_dir(dir: &Path, group: Option<u32>) -> io::Result<()> {
    if !dir.is_dir() {
        fs::DirBuilder::new().mode(0o755).create(dir)?;
        chown(dir, None, group)?;
    }
    Ok(())
}

/// One link for each name at the top; links to names that are gone go too.
fn link_entries(dir: &Path, payload: &Payload) -> io::Result<()> {
    let tops: BTreeSet<PathBuf> = payload
        .0
        .keys()
        .filter_map(|path| Path::new(path).components().next())
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect();
    for top in &tops {
        match symlink(Path::new(DATA).join(top), dir.join(top)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(b"..");
        if !is_ours && entry.file_type()?.is_symlink() && !tops.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_equal(data: &Path, payload: &Payload) -> bool {
    let mut left = 0;
    let same = payload
        .0
        .iter()
        .all(|(path, file)| fs::read(data.join(path)).is_ok_and(|content| content == file.content));
    same && count(data, &mut left).is_ok() && left == payload.0.len()
}

fn count(dir: &Path, files: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            count(&entry.path(), files)?;
        } else {
            *files += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::payload::PayloadFile;
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |content: &str| PayloadFile { content: content.into(), mode: 0o640 };
        Payload(files.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect())
    }

    /// What a container sees: names and contents.
    fn seen(dir: &Path) -> Vec<(String, Option<String>)> {
        let mut entries: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with(".."))
            .map(|name| (name.clone(), fs::read_to_string(dir.join(name)).ok()))
            .collect();
        entries.sort();
        entries
    }

    #[test]
    fn files_are_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("v");
        write(&volume, &payload(&[("a", "1"), ("sub/b", "2")]), None).unwrap();
        assert_eq!(seen(&volume), [("a".into(), Some("1".into())), ("sub".into(), None)]);
        assert_eq!(fs::read_to_string(volume.join("sub/b")).unwrap(), "2");
        let mode = fs::metadata(volume.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);

        let first = fs::read_link(volume.join(DATA)).unwrap();
        write(&volume, &payload(&[("a", "1"), ("sub/b", "2")]), None).unwrap();
        assert_eq!(fs::read_link(volume.join(DATA)).unwrap(), first, "nothing to do");

        write(&volume, &payload(&[("a", "new"), ("c", "3")]), None).unwrap();
        let want = [("a".into(), Some("new".into())), ("c".into(), Some("3".into()))];
        assert_eq!(seen(&volume), want);
        assert_ne!(fs::read_link(volume.join(DATA)).unwrap(), first);
        assert!(!volume.join(first).exists());

        write(&volume, &payload(&[]), None).unwrap();
        assert_eq!(seen(&volume), []);
    }
}
