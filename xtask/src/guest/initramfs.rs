//! The guest's first and only file system, as bytes.
//!
//! The kernel unpacks a `cpio` archive in the `newc` form: for each file a mark,
//! thirteen numbers of eight hexadecimal digits, the name and the content, each
//! padded to four bytes; at the end an entry with a name of its own
//! (`Documentation/driver-api/early-userspace/buffer-format.rst` of Linux).

use anyhow::{Context, Result};

const MAGIC: &str = "070701";
const LAST: &str = "TRAILER!!!";
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
/// The console that the kernel opens for the first process.
const CONSOLE: (u32, u32) = (5, 1);

/// An archive that grows file by file. Folders come before what is in them.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(crate) fn folder(&mut self, name: &str) -> Result<()> {
        self.entry(name, FOLDER, (0, 0), &[])
    }

    pub(crate) fn program(&mut self, name: &str, content: &[u8]) -> Result<()> {
        self.entry(name, PROGRAM, (0, 0), content)
    }

    pub(crate) fn console(&mut self, name: &str) -> Result<()> {
        self.entry(name, CHARACTER_DEVICE, CONSOLE, &[])
    }

    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.entry(LAST, 0, (0, 0), &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Result<()> {
        let too_large = || format!("{name} does not fit into an initramfs");
        let size = u32::try_from(content.len()).with_context(too_large)?;
        // The name's length counts the zero byte at its end.
        let name_size = u32::try_from(name.len() + 1).with_context(too_large)?;
        self.entries += 1;
        let (inode, links) = (self.entries, 1);
        let (owner, group, time, checksum) = (0, 0, 0, 0);
        let on_device = (0, 0);
        let header = [
            inode,
            mode,
            owner,
            group,
            links,
            time,
            size,
            on_device.0,
            on_device.1,
            device.0,
            device.1,
            name_size,
            checksum,
        ];
        self.bytes.extend_from_slice(MAGIC.as_bytes());
        for number in header {
            self.bytes.extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Entry {
        name: String,
        mode: u32,
        device: (u32, u32),
        content: Vec<u8>,
    }

    fn entry(name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Entry {
        Entry { name: name.to_owned(), mode, device, content: content.to_vec() }
    }

    /// Every entry, read by the format's rules.
    fn entries(bytes: &[u8]) -> Vec<Entry> {
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&bytes[at..at + 6], MAGIC.as_bytes());
            let number = |index: usize| {
                let start = at + 6 + index * 8;
                u32::from_str_radix(str::from_utf8(&bytes[start..start + 8]).unwrap(), 16).unwrap()
            };
            let (mode, size, device) = (number(1), number(6) as usize, (number(9), number(10)));
            let name_start = at + 110;
            let name_end = name_start + number(11) as usize;
            assert_eq!(bytes[name_end - 1], 0);
            let name = str::from_utf8(&bytes[name_start..name_end - 1]).unwrap();
            let content = name_end.next_multiple_of(4);
            let end = content + size;
            if name == LAST {
                assert_eq!(end.next_multiple_of(4), bytes.len());
                return found;
            }
            found.push(entry(name, mode, device, &bytes[content..end]));
            at = end.next_multiple_of(4);
        }
    }

    #[test]
    fn what_was_put_in_can_be_read_back() {
        let mut archive = Archive::default();
        archive.folder("dev").unwrap();
        archive.console("dev/console").unwrap();
        // Names and contents of every length modulo four.
        for length in 0..5_u8 {
            let content: Vec<u8> = (0..length).collect();
            archive.program(&"x".repeat(usize::from(length) + 1), &content).unwrap();
        }
        let found = entries(&archive.finish().unwrap());
        assert_eq!(found[0], entry("dev", 0o040_755, (0, 0), b""));
        assert_eq!(found[1], entry("dev/console", 0o020_600, (5, 1), b""));
        assert_eq!(found[4], entry("xxx", 0o100_755, (0, 0), &[0, 1]));
        assert_eq!(found.len(), 7);
    }

    #[test]
    fn a_header_is_laid_out_to_the_byte() {
        let mut archive = Archive::default();
        archive.program("init", b"ELF").unwrap();
        let bytes = archive.finish().unwrap();
        let first = "070701\
            00000001000081ed00000000000000000000000100000000\
            0000000300000000000000000000000000000000\
            0000000500000000init\0\0ELF\0";
        assert_eq!(str::from_utf8(&bytes[..first.len()]).unwrap(), first);
    }
}
