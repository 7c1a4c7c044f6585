//! What is in a pod's volumes, and where are they on this machine?
//!
//! | volume | here |
//! |---|---|
//! | `emptyDir` | a directory of the pod; `medium: Memory` and `sizeLimit` are ignored |
//! | `hostPath` | the path itself, checked or made as its type says |
//! | `configMap`, `secret`, `downwardAPI`, `projected` | files in a directory, replaced as a whole when their source changes |
//! | anything else | refused: the pod waits and an event says why |
//!
//! Directories live below the pod's own. Containers see them at their mount paths where the node can
//! mount ([`crate::node::shim`]), and find them through `TIDEPOOL_VOLUME_<NAME>` everywhere.

mod payload;
mod write;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};

use super::downward::Facts;
use super::record::make_private_dirs;
use super::source::Sources;
use payload::Payload;

/// Where the volumes of a pod are, by name.
pub(crate) type Places = BTreeMap<String, PathBuf>;

/// A volume that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("volume {volume:?}: {message}")]
pub(crate) struct VolumeError {
    volume: String,
    message: String,
}

/// Where the pod's volumes are, once they are prepared.
pub(crate) fn places(dir: &Path, pod: &Pod) -> Places {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
    let placed = volumes.map(|volume| {
        let host = volume.host_path.as_ref().map(|host| PathBuf::from(&host.path));
        (volume.name.clone(), host.unwrap_or_else(|| dir.join(&volume.name)))
    });
    placed.collect()
}

/// Makes the pod's volumes below `dir`, or brings their files up to date. Only root can give them
/// to the pod's group; without it containers run as the node's user, who has them anyway.
pub(crate) fn prepare(
    dir: &Path,
    pod: &Pod,
    sources: &Sources,
    facts: &Facts,
    is_root: bool,
) -> Result<(), VolumeError> {
    let spec = pod.spec.as_ref();
    let volumes = spec.and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
    let group = spec.and_then(|spec| spec.security_context.as_ref()?.fs_group);
    let group = group.and_then(|group| u32::try_from(group).ok()).filter(|_| is_root);
    for volume in volumes {
        let failed = |message: String| VolumeError { volume: volume.name.clone(), message };
        make(dir, volume, pod, sources, facts, group).map_err(failed)?;
    }
    Ok(())
}

fn make(
    dir: &Path,
    volume: &Volume,
    pod: &Pod,
    sources: &Sources,
    facts: &Facts,
    group: Option<u32>,
) -> Result<(), String> {
    if let Some(host) = &volume.host_path {
        return check_host_path(host);
    }
    let own = dir.join(&volume.name);
    let failed = |error: io::Error| format!("cannot make {}: {error}", own.display());
    if volume.empty_dir.is_some() {
        return make_empty_dir(&own, group).map_err(failed);
    }
    match Payload::of(volume, pod, sources, facts)? {
        Some(payload) => {
            make_private_dirs(dir).map_err(failed)?;
            write::write(&own, &payload, group).map_err(failed)
        }
        None => Err(format!("{} is not supported on this node", kind(volume))),
    }
}

/// Everyone may write to it, as in a container.
fn make_empty_dir(dir: &Path, group: Option<u32>) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    make_private_dirs(dir)?;
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))?;
    match group {
        Some(group) => std::os::unix::fs::chown(dir, None, Some(group)),
        None => Ok(()),
    }
}

fn check_host_path(source: &HostPathVolumeSource) -> Result<(), String> {
    let path = PathBuf::from(&source.path);
    if !path.is_absolute() {
        return Err(format!("hostPath {:?} is not absolute", source.path));
    }
    let kind = source.type_.as_deref().unwrap_or_default();
    let made = match kind {
        "DirectoryOrCreate" if !path.exists() => fs::create_dir_all(&path),
        "FileOrCreate" if !path.exists() => {
            File::options().append(true).create(true).open(&path).map(drop)
        }
        _ => Ok(()),
    };
    made.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
    let found = fs::metadata(&path);
    let is_right = match (kind, &found) {
        ("", _) => true,
        (_, Err(_)) => false,
        ("DirectoryOrCreate" | "Directory", Ok(found)) => found.is_dir(),
        ("FileOrCreate" | "File", Ok(found)) => found.is_file(),
        ("Socket", Ok(found)) => found.file_type().is_socket(),
        ("CharDevice", Ok(found)) => found.file_type().is_char_device(),
        ("BlockDevice", Ok(found)) => found.file_type().is_block_device(),
        _ => return Err(format!("hostPath type {kind:?} is unknown")),
    };
    if is_right { Ok(()) } else { Err(format!("hostPath {:?} is no {kind}", source.path)) }
}

/// The field that is set, as in the manifest.
fn kind(volume: &Volume) -> String {
    let fields = serde_json::to_value(volume).unwrap_or_default();
    let mut names = fields.as_object().into_iter().flat_map(|fields| fields.keys());
    names.find(|name| *name != "name").cloned().unwrap_or_else(|| "a volume without source".into())
}

/// The variable that tells a container where a volume is.
pub(crate) fn variable(volume: &str) -> String {
    let name = volume.chars().map(|char| match char {
        'a'..='z' => char.to_ascii_uppercase(),
        'A'..='Z' | '0'..='9' => char,
        _ => '_',
    });
    format!("TIDEPOOL_VOLUME_{}", name.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::node::downward::facts;

    fn prepare_in(dir: &Path, volumes: Value) -> Result<Places, String> {
        let pod =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": volumes}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        prepare(dir, &pod, &Sources::default(), &facts(), false)
            .map_err(|error| error.to_string())?;
        Ok(places(dir, &pod))
    }

    #[test]
    fn an_empty_dir_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = json!([{"name": "scratch", "emptyDir": {}}]);
        let places = prepare_in(dir.path(), volumes.clone()).unwrap();
        let place = &places["scratch"];
        assert_eq!(fs::metadata(place).unwrap().permissions().mode() & 0o7777, 0o777);
        fs::write(place.join("file"), "x").unwrap();
        prepare_in(dir.path(), volumes).unwrap();
        assert!(place.join("file").exists());
    }

    #[test]
    fn host_paths_are_checked_by_type() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let at = |path: &Path| path.display().to_string();
        let cases = [
            (at(dir.path()), "", true),
            (at(&dir.path().join("none")), "", true),
            (at(dir.path()), "Directory", true),
            (at(&file), "Directory", false),
            (at(&file), "File", true),
            (at(dir.path()), "File", false),
            (at(&dir.path().join("none")), "Directory", false),
            (at(&dir.path().join("new/dir")), "DirectoryOrCreate", true),
            (at(&dir.path().join("new-file")), "FileOrCreate", true),
            (at(&file), "Socket", false),
            ("/dev/null".into(), "CharDevice", true),
            ("/dev/null".into(), "BlockDevice", false),
            ("relative".into(), "", false),
            (at(&file), "Nonsense", false),
        ];
        for (path, kind, want) in cases {
            let volumes = json!([{"name": "h", "hostPath": {"path": path, "type": kind}}]);
            assert_eq!(prepare_in(dir.path(), volumes).is_ok(), want, "{path} {kind}");
        }
        assert!(dir.path().join("new/dir").is_dir());
    }

    #[test]
    fn volumes_of_other_kinds_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "x"}}]);
        let want = "volume \"d\": persistentVolumeClaim is not supported on this node";
        assert_eq!(prepare_in(dir.path(), volumes).unwrap_err(), want);
    }

    #[test]
    fn variables_are_upper_case() {
        assert_eq!(variable("my-data.1"), "TIDEPOOL_VOLUME_MY_DATA_1");
    }
}
