//! From a container in a manifest to a process on this machine.
//!
//! The image decides what the process sees as `/`:
//!
//! | image | root directory |
//! |---|---|
//! | `host`, `host:anything` | this machine's |
//! | an absolute path to a directory | that directory; only root can do this |
//! | anything else | this machine's; an event says once that the image is ignored |

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use units::Bytes;

use super::cgroup::oom_score_adj;
use super::downward::Facts;
use super::env::{self, Env};
use super::plan::Backoff;
use super::record::{BackoffRecord, LogFile, Mount, RunDir, RunSpec, User};
use super::resource::{Amounts, QosClass};
use super::source::Sources;
use super::volume::{self, Places};

/// What this process may do on this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Powers {
    /// Our own user.
    pub(crate) uid: u32,
    /// Mounts that only one container sees.
    pub(crate) can_mount: bool,
}

impl Powers {
    pub(crate) fn is_root(self) -> bool {
        self.uid == 0
    }
}

/// Everything that goes into one run of a container.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) sources: &'a Sources,
    pub(crate) facts: &'a Facts,
    pub(crate) places: &'a Places,
    pub(crate) powers: Powers,
    pub(crate) memory_capacity: Bytes,
    pub(crate) dir: &'a RunDir,
    pub(crate) id: String,
    pub(crate) cgroups: Vec<PathBuf>,
    pub(crate) oom_file: Option<PathBuf>,
    pub(crate) log: LogFile,
    pub(crate) shim_args: Vec<String>,
    pub(crate) backoff: Option<Backoff>,
}

/// What a container's image stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Image {
    Host,
    Ignored,
    Root(PathBuf),
}

impl Image {
    pub(crate) fn of(container: &Container) -> Result<Self, String> {
        let image = container.image.as_deref().unwrap_or_default();
        if image.is_empty() || image == "host" || image.starts_with("host:") {
            return Ok(Self::Host);
        }
        if !image.starts_with('/') {
            return Ok(Self::Ignored);
        }
        let path = PathBuf::from(image);
        if path.is_dir() {
            Ok(Self::Root(path))
        } else {
            Err(format!("image {image} is no directory"))
        }
    }
}

/// The specification of the run. The error is the message of a `CreateContainerConfigError`.
pub(crate) fn compose(recipe: Recipe<'_>) -> Result<RunSpec, String> {
    let Recipe { pod, container, powers, .. } = recipe;
    let root = root(container, powers)?;
    let user = user(pod, container, powers)?;
    let home = if user.as_ref().map_or(powers.uid, |user| user.uid) == 0 { "/root" } else { "/" };

    let mut env = Env::base(pod, home);
    let termination_log = recipe.dir.termination_log();
    env.set("TIDEPOOL_TERMINATION_LOG", termination_log.display().to_string());
    let can_mount = powers.is_root() && powers.can_mount;
    for mount in container.volume_mounts.iter().flatten() {
        let place = recipe.places.get(&mount.name).map(|place| place.display().to_string());
        let place = if can_mount { Some(mount.mount_path.clone()) } else { place };
        env.set(&volume::variable(&mount.name), place.unwrap_or_default());
    }
    env.extend(pod, container, recipe.sources, recipe.facts)?;

    let mounts = if can_mount { mounts(container, recipe.places, &env)? } else { Vec::new() };
    let argv = argv(container, &env)?;
    let working_dir = container.working_dir.as_deref().filter(|dir| !dir.is_empty());
    let security = container.security_context.as_ref();
    let spec = pod.spec.as_ref();
    let class = spec.map_or(QosClass::BestEffort, QosClass::of);
    let request = Amounts::of_container(container).memory_request;
    let grace = spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    Ok(RunSpec {
        id: recipe.id,
        argv,
        env: env.into_vec(),
        working_dir: working_dir.unwrap_or("/").into(),
        root,
        mounts,
        cgroups: recipe.cgroups,
        oom_file: recipe.oom_file,
        oom_score_adj: oom_score_adj(class, request, recipe.memory_capacity),
        user,
        no_new_privileges: security
            .is_some_and(|security| security.allow_privilege_escalation == Some(false)),
        log: recipe.log,
        shim_args: recipe.shim_args,
        grace_seconds: u64::try_from(grace).unwrap_or(0),
        backoff: recipe.backoff.map(|backoff| BackoffRecord {
            seconds: backoff.delay.as_secs().unsigned_abs(),
            since: backoff.since,
        }),
    })
}

fn root(container: &Container, powers: Powers) -> Result<Option<PathBuf>, String> {
    match Image::of(container)? {
        Image::Host | Image::Ignored => Ok(None),
        Image::Root(path) if powers.is_root() && powers.can_mount => Ok(Some(path)),
        Image::Root(path) => Err(format!(
            "image {} is a directory, and only root can use one as root directory",
            path.display()
        )),
    }
}

fn argv(container: &Container, env: &Env) -> Result<Vec<String>, String> {
    let (command, args) = (container.command.iter().flatten(), container.args.iter().flatten());
    // What an image would do with arguments alone is unknown; where there is none, or none with
    // an entry point, they are the command.
    let needs_command = Image::of(container) == Ok(Image::Ignored);
    let is_missing = needs_command && container.command.as_ref().is_none_or(Vec::is_empty);
    let mut room = env::MOST;
    let mut argv = Vec::new();
    for word in command.chain(args) {
        let word = env.expand(word).map_err(|why| format!("an argument {why}"))?;
        let left = room.checked_sub(word.len());
        room = left.ok_or("the arguments are more than the kernel hands to a program")?;
        argv.push(word);
    }
    if argv.is_empty() || is_missing {
        return Err("no command: images are not run here, give the container a command".into());
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err("the command contains a NUL byte".into());
    }
    Ok(argv)
}

/// Who the process is; `None` for whoever we are.
fn user(pod: &Pod, container: &Container, powers: Powers) -> Result<Option<User>, String> {
    let whole = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let own = container.security_context.as_ref();
    let uid = own.and_then(|own| own.run_as_user).or(whole.and_then(|whole| whole.run_as_user));
    let gid = own.and_then(|own| own.run_as_group).or(whole.and_then(|whole| whole.run_as_group));
    let must_not_be_root = own.and_then(|own| own.run_as_non_root);
    let must_not_be_root = must_not_be_root.or(whole.and_then(|whole| whole.run_as_non_root));
    let id = |id: i64| u32::try_from(id).map_err(|_| format!("{id} is no user or group"));

    let uid = uid.map(id).transpose()?;
    if must_not_be_root == Some(true) && uid.unwrap_or(powers.uid) == 0 {
        return Err(format!(
            "container has runAsNonRoot and would run as root (container: {})",
            container.name
        ));
    }
    if !powers.is_root() {
        return match uid {
            Some(uid) if uid != powers.uid => {
                Err(format!("cannot run as user {uid}: the node does not run as root"))
            }
            _ => Ok(None),
        };
    }
    let mut groups: Vec<i64> =
        whole.and_then(|whole| whole.supplemental_groups.clone()).unwrap_or_default();
    groups.extend(whole.and_then(|whole| whole.fs_group));
    if uid.is_none() && gid.is_none() && groups.is_empty() {
        return Ok(None);
    }
    let groups = groups.into_iter().map(id).collect::<Result<_, _>>()?;
    let gid = gid.map(id).transpose()?.unwrap_or(0);
    Ok(Some(User { uid: uid.unwrap_or(0), gid, groups }))
}

/// Outer directories first, so that inner ones are not hidden.
fn mounts(container: &Container, places: &Places, env: &Env) -> Result<Vec<Mount>, String> {
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let place = places.get(&mount.name);
        let place = place.ok_or_else(|| format!("volume {:?} does not exist", mount.name))?;
        mounts.push(Mount {
            source: source(place, mount, env)?,
            target: PathBuf::from(&mount.mount_path),
            read_only: mount.read_only.unwrap_or(false),
        });
    }
    mounts.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(mounts)
}

fn source(place: &Path, mount: &VolumeMount, env: &Env) -> Result<PathBuf, String> {
    let expanded = mount.sub_path_expr.as_deref().map(|path| env.expand(path)).transpose();
    let expanded = expanded.map_err(|why| format!("subPathExpr {why}"))?;
    let inner = expanded.as_deref().or(mount.sub_path.as_deref()).unwrap_or_default();
    let is_inside = Path::new(inner).components().all(|part| matches!(part, Component::Normal(_)));
    if inner.is_empty() {
        return Ok(place.to_owned());
    }
    if !is_inside {
        return Err(format!("subPath {inner:?} leads out of volume {:?}", mount.name));
    }
    Ok(place.join(inner))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::node::downward::facts;

    const ROOT: Powers = Powers { uid: 0, can_mount: true };
    const USER: Powers = Powers { uid: 1000, can_mount: false };

    fn composed(pod_fields: Value, container: Value, powers: Powers) -> Result<RunSpec, String> {
        let mut spec = json!({"containers": [container]});
        spec.as_object_mut().unwrap().extend(pod_fields.as_object().unwrap().clone());
        let pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        compose(Recipe {
            pod: &pod,
            container,
            sources: &Sources::default(),
            facts: &facts(),
            places: &[("data".to_owned(), PathBuf::from("/state/data"))].into(),
            powers,
            memory_capacity: Bytes::from_gib(1),
            dir: &RunDir::new("/state/run"),
            id: "c0ffee".into(),
            cgroups: Vec::new(),
            oom_file: None,
            log: LogFile { path: "/state/log".into(), max_bytes: 1, max_files: 1 },
            shim_args: Vec::new(),
            backoff: None,
        })
    }

    fn with(fields: Value) -> Value {
        let mut container = json!({"name": "c", "command": ["run"]});
        container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        container
    }

    #[test]
    fn commands_and_arguments_are_expanded() {
        let container = with(json!({
            "command": ["$(PROGRAM)"],
            "args": ["--name=$(HOSTNAME)", "$$(HOSTNAME)", "$(NONE)"],
            "env": [{"name": "PROGRAM", "value": "serve"}],
            "workingDir": "/tmp",
        }));
        let spec = composed(json!({}), container, USER).unwrap();
        assert_eq!(spec.argv, ["serve", "--name=web", "$(HOSTNAME)", "$(NONE)"]);
        assert_eq!(spec.working_dir, Path::new("/tmp"));
        assert_eq!(spec.oom_score_adj, 1_000);
    }

    #[test]
    fn a_container_without_a_command_says_what_to_do() {
        for container in
            [json!({"image": "nginx"}), json!({"image": "nginx", "args": ["x"]}), json!({})]
        {
            let mut container = container;
            container["name"] = json!("c");
            let error = composed(json!({}), container, USER).unwrap_err();
            assert_eq!(error, "no command: images are not run here, give the container a command");
        }
        let container = json!({"name": "c", "image": "host", "args": ["x", "y"]});
        assert_eq!(composed(json!({}), container, USER).unwrap().argv, ["x", "y"]);
    }

    #[test]
    fn images() {
        let image = |image: &str| {
            let container: Container =
                serde_json::from_value(with(json!({"image": image}))).unwrap();
            Image::of(&container)
        };
        assert_eq!(image("host"), Ok(Image::Host));
        assert_eq!(image("host:v1"), Ok(Image::Host));
        assert_eq!(image(""), Ok(Image::Host));
        assert_eq!(image("nginx:1.25"), Ok(Image::Ignored));
        assert_eq!(image("hostess"), Ok(Image::Ignored));
        assert_eq!(image("/usr"), Ok(Image::Root("/usr".into())));
        assert_eq!(image("/no/such/dir"), Err("image /no/such/dir is no directory".into()));

        assert_eq!(
            composed(json!({}), with(json!({"image": "/usr"})), ROOT).unwrap().root,
            Some("/usr".into())
        );
        let error = composed(json!({}), with(json!({"image": "/usr"})), USER).unwrap_err();
        assert!(error.contains("only root"), "{error}");
    }

    #[test]
    fn volumes_are_mounted_if_possible_and_named_in_any_case() {
        let container = || {
            with(json!({"volumeMounts": [
                {"name": "data", "mountPath": "/srv/data/inner", "subPath": "a/b", "readOnly": true},
                {"name": "data", "mountPath": "/srv/data"},
            ]}))
        };
        let value = |spec: &RunSpec| {
            let mut vars = spec.env.iter();
            vars.find(|(name, _)| name == "TIDEPOOL_VOLUME_DATA").map(|(_, value)| value.clone())
        };
        let spec = composed(json!({}), container(), ROOT).unwrap();
        let want = [
            Mount { source: "/state/data".into(), target: "/srv/data".into(), read_only: false },
            Mount {
                source: "/state/data/a/b".into(),
                target: "/srv/data/inner".into(),
                read_only: true,
            },
        ];
        assert_eq!(spec.mounts, want);
        assert_eq!(value(&spec).as_deref(), Some("/srv/data"));

        let spec = composed(json!({}), container(), USER).unwrap();
        assert_eq!(spec.mounts, []);
        assert_eq!(value(&spec).as_deref(), Some("/state/data"));

        let out =
            with(json!({"volumeMounts": [{"name": "data", "mountPath": "/x", "subPath": "../y"}]}));
        assert!(composed(json!({}), out, ROOT).unwrap_err().contains("leads out"));
        let none = with(json!({"volumeMounts": [{"name": "other", "mountPath": "/x"}]}));
        assert!(composed(json!({}), none, ROOT).unwrap_err().contains("does not exist"));
    }

    #[test]
    fn users() {
        let own = |fields: Value| with(json!({"securityContext": fields}));
        let whole = json!({"securityContext": {"runAsUser": 5, "runAsGroup": 6, "fsGroup": 7, "supplementalGroups": [8]}});
        let user = |result: Result<RunSpec, String>| result.map(|spec| spec.user);

        assert_eq!(user(composed(json!({}), with(json!({})), ROOT)), Ok(None));
        let want = User { uid: 5, gid: 6, groups: vec![8, 7] };
        assert_eq!(user(composed(whole.clone(), with(json!({})), ROOT)), Ok(Some(want)));
        let want = User { uid: 9, gid: 6, groups: vec![8, 7] };
        assert_eq!(user(composed(whole, own(json!({"runAsUser": 9})), ROOT)), Ok(Some(want)));

        assert_eq!(user(composed(json!({}), own(json!({"runAsUser": 1000})), USER)), Ok(None));
        assert!(user(composed(json!({}), own(json!({"runAsUser": 5})), USER)).is_err());
        assert!(user(composed(json!({}), own(json!({"runAsNonRoot": true})), ROOT)).is_err());
        assert_eq!(user(composed(json!({}), own(json!({"runAsNonRoot": true})), USER)), Ok(None));
        assert!(user(composed(json!({}), own(json!({"runAsUser": -1})), ROOT)).is_err());
    }
}
