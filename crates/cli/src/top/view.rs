//! How is the screen drawn?
//!
//! Classes have the console's colours; letters say the same for terminals without. Nothing here
//! decides anything.

use std::ffi::OsStr;

use console::model::cpus::Cpu;
use console::model::overview::Overview;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState};
use units::{MilliCpu, Percent, Rounding};

use super::screen::{Screen, Tab};
use super::text;

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Palette {
    is_coloured: bool,
}

impl Palette {
    pub(crate) const COLOURED: Self = Self { is_coloured: true };
    pub(crate) const PLAIN: Self = Self { is_coloured: false };

    /// As the environment wants it: any value of NO_COLOR but the empty one means none.
    pub(crate) fn of(no_color: Option<&OsStr>) -> Self {
        match no_color {
            Some(value) if !value.is_empty() => Self::PLAIN,
            _ => Self::COLOURED,
        }
    }

    fn ink(self, color: Color) -> Style {
        match self.is_coloured {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    fn class(self, name: &str) -> Style {
        let color = match name {
            "LSE" => Color::Rgb(0x00, 0x72, 0xb2),
            "LSR" => Color::Rgb(0x56, 0xb4, 0xe9),
            "LS" => Color::Rgb(0x00, 0x9e, 0x73),
            "BE" => Color::Rgb(0xe6, 0x9f, 0x00),
            _ => Color::Gray,
        };
        self.ink(color)
    }

    fn state(self, word: &str) -> Style {
        match word {
            "unsafe" => self.ink(Color::Red).add_modifier(Modifier::BOLD),
            "held" => self.class("BE"),
            "safe" => self.class("LS"),
            _ => Style::new(),
        }
    }
}

const HINTS: &str = " 1 nodes  2 pods  3 CPUs  / search  Enter open  Esc back  ? help  q quit";

const HELP: &str = " 1, 2, 3     nodes, pods, CPUs of the chosen node
 up, down    choose a row (also k and j, PgUp, PgDn, Home, End)
 Enter       the CPUs of the chosen node
 /           search by name; Enter keeps it, Esc clears it
 Esc         back
 q           quit

 safe        measured, with room for a burst of online work
 held        best-effort work waits for online work, as it should
 unsafe      someone should look
 unknown     no recent report
 off         switched off

 BE          used by best-effort work; LIMIT is what its node grants it,
             LENT what batch pods may request; all in CPUs
 LSE LSR LS BE SYSTEM: classes, from the most to the least protected.
 In the CPU map, + marks CPUs where best-effort work may run beside.";

/// Draws everything.
pub(crate) fn draw(screen: &Screen, palette: Palette, frame: &mut Frame<'_>) {
    let [title, cpu, batch, tabs, body, hints] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let overview = &screen.snapshot.overview;
    frame.render_widget(title_line(screen, title.width), title);
    frame.render_widget(cpu_line(overview, palette, cpu.width), cpu);
    frame.render_widget(batch_line(overview), batch);
    frame.render_widget(tab_line(screen), tabs);
    match screen.tab {
        Tab::Nodes => draw_nodes(screen, palette, frame, body),
        Tab::Pods => draw_pods(screen, palette, frame, body),
        Tab::Cpus => draw_cpus(screen, palette, frame, body),
    }
    let bottom = match screen.is_searching {
        true => Line::from(format!(" search: {}_", text::plain(&screen.search))),
        false => Line::from(HINTS).style(Style::new().add_modifier(Modifier::DIM)),
    };
    frame.render_widget(bottom, hints);
    if screen.shows_help {
        let area = frame.area().centered(Constraint::Max(76), Constraint::Max(20));
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" help ")), area);
    }
}

fn title_line(screen: &Screen, width: u16) -> Line<'static> {
    let left = format!(" tidepool top  {}", screen.snapshot.overview.headline);
    let time = screen.snapshot.at.strftime("%H:%M:%S UTC ").to_string();
    let room = usize::from(width).saturating_sub(left.chars().count() + time.chars().count());
    let text = format!("{left}{}{time}", " ".repeat(room));
    Line::from(text).style(Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD))
}

fn share(part: MilliCpu, whole: MilliCpu) -> Percent {
    Percent::of(part, whole, Rounding::Nearest).unwrap_or_default()
}

/// Used by online work `#`, by batch `=`, free `.`.
fn cpu_line(overview: &Overview, palette: Palette, width: u16) -> Line<'static> {
    let cpu = overview.cpu;
    if cpu.capacity == MilliCpu::ZERO {
        return Line::from(" CPU     nothing was measured yet");
    }
    let (all, online) = (share(cpu.used, cpu.capacity), share(cpu.without_batch, cpu.capacity));
    let note = format!(
        " {}% of {} CPUs, {}% without batch",
        all.0,
        text::cores(Some(cpu.capacity)),
        online.0
    );
    let room = usize::from(width).saturating_sub(note.chars().count() + 12).clamp(4, 60);
    let cells =
        |percent: Percent| usize::try_from(percent.0.clamp(0, 100)).unwrap_or(0) * room / 100;
    let (first, second) = (cells(online), cells(all));
    Line::from(vec![
        Span::raw(" CPU     ["),
        Span::styled("#".repeat(first), palette.class("LS")),
        Span::styled("=".repeat(second.saturating_sub(first)), palette.class("BE")),
        Span::raw(".".repeat(room.saturating_sub(second.max(first)))),
        Span::raw("]"),
        Span::raw(note),
    ])
}

fn batch_line(overview: &Overview) -> Line<'static> {
    let batch = overview.batch;
    Line::from(format!(
        " Batch   {} CPUs lent, {} requested, {} used; best-effort pods: {}",
        text::cores(Some(batch.lent)),
        text::cores(Some(batch.requested)),
        text::cores(Some(batch.used)),
        batch.pods
    ))
}

fn tab_line(screen: &Screen) -> Line<'static> {
    let tab = |tab: Tab, label: String| {
        let style = match screen.tab == tab {
            true => Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD),
            false => Style::new(),
        };
        [Span::raw(" "), Span::styled(label, style), Span::raw(" ")]
    };
    let mut spans = Vec::new();
    spans.extend(tab(Tab::Nodes, format!("1 Nodes ({})", screen.snapshot.nodes.len())));
    spans.extend(tab(Tab::Pods, format!("2 Pods ({})", screen.snapshot.pods.len())));
    spans.extend(tab(Tab::Cpus, "3 CPUs".to_owned()));
    if !screen.search.is_empty() {
        spans.push(Span::raw(format!("  searching for {}", text::plain(&screen.search))));
    }
    Line::from(spans)
}

fn header<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::BOLD))
}

fn table<'t, const N: usize>(
    rows: Vec<Row<'t>>,
    names: [&'static str; N],
    widths: [Constraint; N],
) -> Table<'t> {
    Table::new(rows, widths)
        .header(header(names))
        .column_spacing(1)
        .highlight_symbol("> ")
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

fn draw_nodes(screen: &Screen, palette: Palette, frame: &mut Frame<'_>, area: Rect) {
    let nodes = screen.nodes();
    if nodes.is_empty() {
        let text =
            if screen.search.is_empty() { "  There are no nodes yet." } else { "  No node fits." };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    // Room for the reason, and for memory in two numbers, is only on wide screens.
    let is_wide = area.width >= 120;
    let [area, reason] =
        Layout::vertical([Constraint::Min(1), Constraint::Length(u16::from(!is_wide))]).areas(area);
    if let Some(row) = nodes.get(screen.chosen) {
        let text = format!(" {}: {}", text::plain(&row.name), text::plain(&row.why));
        frame.render_widget(Line::from(text), reason);
    }
    let (why, memory_width) = match is_wide {
        true => (Constraint::Fill(2), 15),
        false => (Constraint::Length(0), 4),
    };
    let rows = nodes.iter().map(|row| {
        let [name, state, percent, used, be, limit, lent, memory, pods] = text::node_cells(row);
        let memory = if is_wide { memory } else { text::memory_percent(row) };
        let state = Span::styled(state, palette.state(row.state.word()));
        let right = |text: String| Line::from(text).right_aligned();
        let cells: [Line<'_>; 10] = [
            name.into(),
            state.into(),
            right(percent),
            right(used),
            right(be),
            right(limit),
            right(lent),
            right(memory),
            right(pods),
            text::plain(&row.why).into(),
        ];
        Row::new(cells)
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(4),
        Constraint::Length(11),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(memory_width),
        Constraint::Length(7),
        why,
    ];
    let memory = if is_wide { "         MEMORY" } else { " MEM" };
    let names = [
        "NODE",
        "STATE",
        " CPU",
        "  USED/CPUS",
        "    BE",
        " LIMIT",
        "  LENT",
        memory,
        "BE/PODS",
        if is_wide { "WHY" } else { "" },
    ];
    let mut state = TableState::new().with_selected(screen.chosen);
    frame.render_stateful_widget(table(rows.collect(), names, widths), area, &mut state);
}

fn draw_pods(screen: &Screen, palette: Palette, frame: &mut Frame<'_>, area: Rect) {
    let pods = screen.pods();
    if pods.is_empty() {
        let text = if screen.search.is_empty() { "  No pods run yet." } else { "  No pod fits." };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let rows = pods.iter().map(|row| {
        let [key, class, cpu, requested, batch, memory, node] = text::pod_cells(row);
        let style = palette.class(&row.qos);
        let cells: [Line<'_>; 7] = [
            key.into(),
            Span::styled(class, style).into(),
            Line::from(cpu).right_aligned(),
            Line::from(requested).right_aligned(),
            Line::from(batch).right_aligned(),
            Line::from(memory).right_aligned(),
            node.into(),
        ];
        Row::new(cells)
    });
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Fill(1),
    ];
    let names = ["POD", "CLASS", "   CPU", "REQUESTED", " BATCH", " MEMORY", "NODE"];
    let mut state = TableState::new().with_selected(screen.chosen);
    frame.render_stateful_widget(table(rows.collect(), names, widths), area, &mut state);
}

fn draw_cpus(screen: &Screen, palette: Palette, frame: &mut Frame<'_>, area: Rect) {
    let Some(page) = &screen.snapshot.node else {
        frame.render_widget(Paragraph::new("  Choose a node and press Enter."), area);
        return;
    };
    let said = text::node_lines(page).into_iter().map(|line| Line::from(format!(" {line}")));
    let mut lines: Vec<Line<'_>> = said.chain([Line::default()]).collect();
    if page.cpu_map.sockets.is_empty() {
        lines.push(Line::from("  The agent of this node has not described its CPUs."));
    }
    for socket in &page.cpu_map.sockets {
        for numa in &socket.numas {
            lines.push(Line::from(format!(" socket {}, NUMA node {}", socket.id, numa.id)));
            let cells: Vec<Vec<Span<'_>>> =
                numa.cores.iter().map(|core| core_cell(&core.cpus, palette)).collect();
            let widest = numa.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1);
            let each = usize::from(area.width).saturating_sub(2) / (widest * 9 + 2);
            for row in cells.chunks(each.max(1)) {
                let mut line = vec![Span::raw("  ")];
                line.extend(row.iter().flatten().cloned());
                lines.push(Line::from(line));
            }
        }
    }
    lines.push(Line::default());
    lines.push(Line::from(vec![
        Span::raw(" "),
        Span::styled("LSE", palette.class("LSE")),
        Span::raw(" exclusive  "),
        Span::styled("LSR", palette.class("LSR")),
        Span::raw(" reserved  "),
        Span::styled("LS", palette.class("LS")),
        Span::raw(" shared  "),
        Span::styled("BE", palette.class("BE")),
        Span::raw(" alone  + lends to best-effort"),
    ]));
    frame.render_widget(Paragraph::new(lines), area);
}

/// One core: its CPUs between brackets.
fn core_cell(cpus: &[Cpu], palette: Palette) -> Vec<Span<'static>> {
    let mut spans = vec![Span::raw("[")];
    for (index, cpu) in cpus.iter().enumerate() {
        if index > 0 {
            spans.push(Span::raw(" "));
        }
        let short = if cpu.owner == "SYSTEM" { "SY" } else { cpu.owner };
        let beside = if cpu.lends { "+" } else { " " };
        let text = format!("{:>3} {short:>3}{beside}", cpu.id);
        spans.push(Span::styled(text, palette.class(cpu.owner)));
    }
    spans.push(Span::raw("] "));
    spans
}
