//! The same without a terminal: plain lines that survive a pipe.

use console::model::node::{NodePage, PodRow};
use console::model::row::NodeRow;
use units::{MilliCpu, Percent, Rounding};

use super::screen::{Screen, Tab};
use crate::output;

/// Cores with two digits at most; nothing for what is not known.
pub(super) fn cores(milli: Option<MilliCpu>) -> String {
    let Some(MilliCpu(milli)) = milli else { return "-".to_owned() };
    match milli.abs() {
        100_000.. => format!("{}", milli / 1_000),
        10_000.. => format!("{}.{}", milli / 1_000, (milli % 1_000).abs() / 100),
        _ => format!("{}.{:02}", milli / 1_000, (milli % 1_000).abs() / 10),
    }
}

/// The same, where nothing is not worth a number.
fn some(milli: MilliCpu) -> String {
    cores(Some(milli).filter(|milli| *milli > MilliCpu::ZERO))
}

pub(super) fn gib(bytes: Option<i64>) -> String {
    let Some(bytes) = bytes else { return "-".to_owned() };
    let tenths = bytes / ((1 << 30) / 10);
    format!("{}.{}Gi", tenths / 10, (tenths % 10).abs())
}

pub(super) fn percent(percent: Option<Percent>) -> String {
    percent.map_or_else(|| "-".to_owned(), |percent| format!("{}%", percent.0))
}

/// Letters that a terminal would take for commands are shown as `?`.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// `BE` is what best-effort work uses, `LIMIT` what it may use.
pub(super) const NODE_HEADER: [&str; 9] =
    ["NODE", "STATE", "CPU", "USED/CPUS", "BE", "LIMIT", "LENT", "MEMORY", "BE/PODS"];

/// Memory as a share only, where there is little room.
pub(super) fn memory_percent(row: &NodeRow) -> String {
    let used = row.used.map(|used| used.bytes);
    percent(used.and_then(|used| Percent::of(used, row.capacity.bytes, Rounding::Nearest)))
}

pub(super) fn node_cells(row: &NodeRow) -> [String; 9] {
    let used = row.used;
    [
        plain(&row.name),
        row.state.word().to_owned(),
        percent(row.used_percent()),
        format!(
            "{}/{}",
            cores(used.map(|used| used.milli_cpu)),
            cores(Some(row.capacity.milli_cpu))
        ),
        cores(row.classes.map(|classes| classes.be)),
        cores(row.best_effort_limit),
        cores(row.batch_lent),
        format!("{}/{}", gib(used.map(|used| used.bytes.0)), gib(Some(row.capacity.bytes.0))),
        format!("{}/{}", row.best_effort_pods, row.pods),
    ]
}

pub(super) const POD_HEADER: [&str; 7] =
    ["POD", "CLASS", "CPU", "REQUESTED", "BATCH", "MEMORY", "NODE"];

pub(super) fn pod_cells(row: &PodRow) -> [String; 7] {
    [
        plain(&row.key.to_string()),
        row.qos.clone(),
        cores(row.used.map(|used| used.milli_cpu)),
        some(row.requested.milli_cpu),
        some(row.batch_requested.milli_cpu),
        gib(row.used.map(|used| used.bytes.0)),
        plain(&row.node),
    ]
}

/// What is on the screen, as lines.
pub(super) fn page(screen: &Screen) -> String {
    let overview = &screen.snapshot.overview;
    let mut text = format!("{}\n\n", overview.headline);
    text += &match screen.tab {
        Tab::Nodes => {
            let rows: Vec<_> = screen.nodes().into_iter().map(node_cells).collect();
            output::table(NODE_HEADER, &rows)
        }
        Tab::Pods => {
            let rows: Vec<_> = screen.pods().into_iter().map(pod_cells).collect();
            output::table(POD_HEADER, &rows)
        }
        Tab::Cpus => match &screen.snapshot.node {
            Some(page) => cpus(page),
            None => "There is no node to show.\n".to_owned(),
        },
    };
    text
}

/// How the node is, and what best-effort may use of it.
pub(super) fn node_lines(page: &NodePage) -> Vec<String> {
    let row = &page.row;
    let mut lines = vec![format!("Node {}: {}", plain(&row.name), plain(&row.why))];
    lines.extend(row.best_effort_limit.map(|limit| {
        let (limit, whole) = (cores(Some(limit)), cores(Some(row.capacity.milli_cpu)));
        format!("Best-effort may use {limit} of {whole} CPUs")
    }));
    lines
}

fn cpus(page: &NodePage) -> String {
    let mut text = node_lines(page).join("\n") + "\n";
    if page.cpu_map.sockets.is_empty() {
        return text + "The agent of this node has not described its CPUs.\n";
    }
    let mut rows = Vec::new();
    for socket in &page.cpu_map.sockets {
        for numa in &socket.numas {
            for core in &numa.cores {
                for cpu in &core.cpus {
                    rows.push([
                        cpu.id.to_string(),
                        socket.id.to_string(),
                        numa.id.to_string(),
                        core.id.to_string(),
                        cpu.owner.to_owned(),
                        if cpu.lends { "yes" } else { "no" }.to_owned(),
                        cpu.pod.as_deref().map(plain).unwrap_or_default(),
                    ]);
                }
            }
        }
    }
    text += &output::table(["CPU", "SOCKET", "NUMA", "CORE", "OWNER", "LENDS", "POD"], &rows);
    text
}
