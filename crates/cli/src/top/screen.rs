//! What is on the screen, and what do keys do to it?

use console::model::node::PodRow;
use console::model::row::NodeRow;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::Snapshot;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Nodes,
    Pods,
    Cpus,
}

/// Whether the program goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Stay,
    Leave,
}

/// The state of the screen.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    pub(super) snapshot: Snapshot,
    pub(super) tab: Tab,
    /// Which row of the table, of those that fit the search.
    pub(super) chosen: usize,
    pub(super) search: String,
    pub(super) is_searching: bool,
    pub(super) shows_help: bool,
    /// The node whose CPUs are wanted.
    node: Option<String>,
}

impl Screen {
    pub(crate) fn new(snapshot: Snapshot, tab: Tab) -> Self {
        let node = snapshot.node.as_ref().map(|page| page.row.name.clone());
        Self {
            snapshot,
            tab,
            chosen: 0,
            search: String::new(),
            is_searching: false,
            shows_help: false,
            node,
        }
    }

    pub(crate) fn take(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
        self.chosen = self.chosen.min(self.len().saturating_sub(1));
    }

    pub(crate) fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Whether the snapshot is of another node than the wanted one.
    pub(crate) fn wants_another_node(&self) -> bool {
        let shown = self.snapshot.node.as_ref().map(|page| page.row.name.as_str());
        self.tab == Tab::Cpus && self.node.is_some() && shown != self.node()
    }

    /// Nodes that fit the search, worst first.
    pub(super) fn nodes(&self) -> Vec<&NodeRow> {
        let mut rows: Vec<&NodeRow> =
            self.snapshot.nodes.iter().filter(|row| row.name.contains(&self.search)).collect();
        rows.sort_by(|a, b| a.state.cmp(&b.state).then_with(|| a.name.cmp(&b.name)));
        rows
    }

    /// Pods that fit the search, busiest first.
    pub(super) fn pods(&self) -> Vec<&PodRow> {
        let fits = |row: &&PodRow| {
            row.key.to_string().contains(&self.search) || row.node.contains(&self.search)
        };
        self.snapshot.pods.iter().filter(fits).collect()
    }

    fn len(&self) -> usize {
        match self.tab {
            Tab::Nodes => self.nodes().len(),
            Tab::Pods => self.pods().len(),
            Tab::Cpus => 0,
        }
    }

    /// What a key does.
    pub(crate) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Flow {
        if code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Flow::Leave;
        }
        if std::mem::take(&mut self.shows_help) {
            return Flow::Stay;
        }
        if self.is_searching {
            self.type_key(code);
            return Flow::Stay;
        }
        match code {
            KeyCode::Char('q') => return Flow::Leave,
            KeyCode::Char('?') => self.shows_help = true,
            KeyCode::Char('/') if self.tab != Tab::Cpus => self.is_searching = true,
            KeyCode::Char('1') => self.open(Tab::Nodes),
            KeyCode::Char('2') => self.open(Tab::Pods),
            KeyCode::Char('3') | KeyCode::Enter => self.enter(),
            KeyCode::Esc => self.back(),
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.chosen = self.chosen.saturating_sub(10),
            KeyCode::PageDown => self.step(10),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.step(usize::MAX),
            _ => {}
        }
        Flow::Stay
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_searching = false,
            KeyCode::Esc => {
                self.is_searching = false;
                self.search.clear();
            }
            KeyCode::Backspace => {
                self.search.pop();
            }
            KeyCode::Char(letter) => self.search.push(letter),
            _ => {}
        }
        self.chosen = 0;
    }

    fn step(&mut self, rows: usize) {
        let last = self.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add(rows).min(last);
    }

    fn open(&mut self, tab: Tab) {
        if self.tab != tab {
            self.tab = tab;
            self.chosen = 0;
            self.search.clear();
        }
    }

    /// The CPUs of the chosen node, or of the chosen pod's.
    fn enter(&mut self) {
        let node = match self.tab {
            Tab::Nodes => self.nodes().get(self.chosen).map(|row| row.name.clone()),
            Tab::Pods => self.pods().get(self.chosen).map(|row| row.node.clone()),
            Tab::Cpus => return,
        };
        if let Some(node) = node {
            self.node = Some(node);
            self.open(Tab::Cpus);
        }
    }

    fn back(&mut self) {
        match self.tab {
            Tab::Nodes if self.search.is_empty() => {}
            Tab::Nodes | Tab::Pods if !self.search.is_empty() => {
                self.search.clear();
                self.chosen = 0;
            }
            _ => self.open(Tab::Nodes),
        }
    }
}
