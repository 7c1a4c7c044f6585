//! How is a small file replaced whole or not at all?
//!
//! The files are for their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What is neither readable nor writable by others.
pub const PRIVATE: u32 = 0o600;

/// Replaces a file, so that a crash leaves the old text or the new one.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let beside = path.with_added_extension("tmp");
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(PRIVATE).open(&beside)?;
    // One that a crash left beside may be readable by others.
    file.set_permissions(fs::Permissions::from_mode(PRIVATE))?;
    file.write_all(text)?;
    file.sync_data()?;
    fs::rename(&beside, path)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below").join("state.json");
        replace(&path, b"old").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_crash_left_beside_it_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        fs::write(dir.path().join("state.json.tmp"), "half of something long").unwrap();
        replace(&path, b"whole").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    }
}
