use proptest::prelude::*;
use units::{Bytes, Percent};

use super::*;
use crate::evict::cpu::Band;
use crate::evict::plan::Why;
use crate::evict::round::Target;

const S: Duration = Duration::from_secs(1);

fn need(release: i64, pods: &[(&'static str, i64)]) -> Need<&'static str> {
    let band = Band { threshold: Percent(70), lower: Percent(68) };
    Need {
        feature: "BEMemoryEvict",
        target: Target::MemoryUsed,
        release,
        pods: pods.iter().map(|(id, frees)| (*id, Some(*frees))).collect(),
        most: None,
        is_critical: false,
        why: Why::Memory { used: Bytes(75), capacity: Bytes(100), band },
    }
}

fn critical(release: i64, pods: &[(&'static str, i64)]) -> Need<&'static str> {
    Need { is_critical: true, ..need(release, pods) }
}

/// A node on which time is made by hand.
struct Node {
    book: Book<&'static str>,
    present: BTreeMap<&'static str, Present>,
    manners: Manners,
    now: Duration,
}

impl Node {
    /// Pods are owned by what stands before the dash in their names.
    fn with(pods: &[&'static str]) -> Self {
        let present = pods.iter().map(|name| {
            let owner = name.split('-').next().unwrap_or_default().to_owned();
            (*name, Present { owner, ..Present::default() })
        });
        Self {
            book: Book::new(Duration::ZERO),
            present: present.collect(),
            manners: Manners::default(),
            now: 100 * S,
        }
    }

    /// The steps a second later, as words.
    fn round(&mut self, needs: &[Need<&'static str>]) -> Vec<String> {
        self.now += S;
        let steps = self.book.steps(needs, &self.present, &self.manners, self.now);
        for step in &steps {
            match step {
                Step::Notify { ask, left } => {
                    let pod = self.present.get_mut(ask.id).unwrap();
                    pod.noticed_for = Some(self.now + *left);
                }
                Step::Withdraw(id) => self.present.get_mut(id).unwrap().noticed_for = None,
                Step::Evict(_) | Step::Kill(_) => {}
            }
        }
        let words = steps.iter().map(|step| match step {
            Step::Notify { ask, .. } => format!("notify {}", ask.id),
            Step::Withdraw(id) => format!("withdraw {id}"),
            Step::Evict(ask) => format!("evict {}", ask.id),
            Step::Kill(ask) => format!("kill {}", ask.id),
        });
        words.collect()
    }

    fn answer(&mut self, id: &'static str, answer: Answer) {
        self.book.take(&id, answer, &self.manners, self.now);
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }
}

#[test]
fn notice_comes_first_and_eviction_at_its_hour() {
    let mut node = Node::with(&["a-1", "b-1"]);
    let needs = [need(5, &[("a-1", 9), ("b-1", 9)])];
    assert!(node.book.is_idle());
    assert_eq!(node.round(&needs), ["notify a-1"]);
    assert!(!node.book.is_idle());
    assert_eq!(node.round(&needs), [""; 0], "it has another second");
    assert_eq!(node.round(&needs), ["evict a-1"]);
    assert_eq!(node.round(&needs), [""; 0], "and is asked once");
    node.answer("a-1", Answer::Leaves);
    assert_eq!(node.wait(30 * S).round(&needs), [""; 0], "it counts as gone while it leaves");
}

#[test]
fn a_notice_is_taken_back_when_the_need_passes() {
    let mut node = Node::with(&["a-1", "b-1"]);
    let pods = [("a-1", 9), ("b-1", 9)];
    assert_eq!(node.round(&[need(12, &pods)]), ["notify a-1", "notify b-1"]);
    assert_eq!(node.round(&[need(5, &pods)]), ["withdraw b-1"], "one is enough by now");
    assert_eq!(node.round(&[]), ["withdraw a-1"]);
    assert_eq!(node.wait(30 * S).round(&[]), [""; 0]);
    assert_eq!(node.round(&[need(5, &pods)]), ["notify a-1"], "a new need gives new notice");
}

#[test]
fn a_notice_stays_with_its_pod_when_sizes_change() {
    let mut node = Node::with(&["a-1", "b-1"]);
    assert_eq!(node.round(&[need(5, &[("a-1", 9), ("b-1", 8)])]), ["notify a-1"]);
    assert_eq!(node.round(&[need(5, &[("b-1", 10), ("a-1", 9)])]), [""; 0]);
    assert_eq!(node.round(&[need(5, &[("b-1", 10), ("a-1", 9)])]), ["evict a-1"]);
}

#[test]
fn the_node_rests_and_the_owner_rests_longer() {
    let mut node = Node::with(&["a-1", "b-1"]);
    let first = [need(5, &[("a-1", 9), ("b-1", 9)])];
    node.round(&first);
    node.wait(2 * S).round(&first);
    node.answer("a-1", Answer::Leaves);
    let pod = node.present.remove("a-1").unwrap();
    node.present.insert("a-2", Present { noticed_for: None, ..pod });
    let again = [need(5, &[("a-2", 9), ("b-1", 9)])];
    assert_eq!(node.round(&again), [""; 0], "the node rests");
    assert_eq!(node.wait(4 * S).round(&again), ["notify b-1"], "the owner was hit already");
    assert_eq!(node.round(&[]), ["withdraw b-1"]);
    let alone = [need(5, &[("a-2", 9)])];
    assert_eq!(node.wait(200 * S).round(&alone), [""; 0]);
    assert_eq!(node.wait(100 * S).round(&alone), ["notify a-2"], "its rest is over");
}

#[test]
fn who_refuses_is_left_alone_and_the_next_is_asked() {
    let mut node = Node::with(&["a-1", "b-1"]);
    let needs = [need(5, &[("a-1", 9), ("b-1", 9)])];
    node.round(&needs);
    assert_eq!(node.wait(2 * S).round(&needs), ["evict a-1"]);
    node.answer("a-1", Answer::Refuses { wait: Duration::ZERO });
    assert_eq!(node.round(&needs), ["notify b-1", "withdraw a-1"]);
    assert_eq!(node.wait(2 * S).round(&needs), ["evict b-1"]);
    node.answer("b-1", Answer::Refuses { wait: 60 * S });
    assert_eq!(node.round(&needs), ["withdraw b-1"]);
    assert_eq!(node.wait(10 * S).round(&needs), ["notify a-1"], "its peace is over first");
    assert_eq!(node.wait(2 * S).round(&needs), ["evict a-1"]);
    node.answer("a-1", Answer::Refuses { wait: Duration::ZERO });
    node.round(&needs);
    assert_eq!(node.wait(12 * S).round(&needs), [""; 0], "the second peace is longer");
}

#[test]
fn a_pod_that_is_gone_costs_nobody_a_rest() {
    let mut node = Node::with(&["a-1", "b-1"]);
    let needs = [need(5, &[("a-1", 9), ("b-1", 9)])];
    node.round(&needs);
    node.wait(2 * S).round(&needs);
    node.answer("a-1", Answer::Gone);
    node.present.remove("a-1");
    assert_eq!(node.round(&needs), ["notify b-1"]);
}

#[test]
fn a_pod_without_an_answer_counts_as_gone_for_a_while() {
    let mut node = Node::with(&["a-1", "b-1"]);
    let needs = [need(5, &[("a-1", 9), ("b-1", 9)])];
    node.round(&needs);
    node.wait(2 * S).round(&needs);
    node.answer("a-1", Answer::Unknown);
    assert_eq!(node.wait(10 * S).round(&needs), [""; 0], "it may have left");
    assert_eq!(node.book.owners().count(), 0);
    let mut left = Node { book: node.book.clone(), present: node.present.clone(), ..node };
    assert_eq!(left.wait(5 * S).round(&needs), ["evict a-1"], "it has not, and its notice stands");
    left.answer("a-1", Answer::Unknown);
    left.present.get_mut("a-1").unwrap().deleted_by = Some(left.now + 30 * S);
    left.round(&needs);
    assert_eq!(left.book.owners().map(|(owner, _)| owner).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn who_is_deleted_by_others_counts_and_is_not_touched() {
    let mut node = Node::with(&["a-1", "b-1"]);
    node.present.get_mut("a-1").unwrap().deleted_by = Some(node.now + 30 * S);
    let needs = [need(5, &[("a-1", 9), ("b-1", 9)])];
    assert_eq!(node.round(&needs), [""; 0]);
    assert_eq!(node.wait(60 * S).round(&needs), ["notify b-1"], "it is overdue");
}

#[test]
fn few_are_told_at_once() {
    let names = ["a-1", "b-1", "c-1", "d-1", "e-1", "f-1"];
    let mut node = Node::with(&names);
    let pods = names.map(|name| (name, 1));
    assert_eq!(node.round(&[need(6, &pods)]).len(), 4);
}

#[test]
fn memory_that_runs_out_gives_no_notice_and_asks_everybody() {
    let mut node = Node::with(&["a-2", "b-1"]);
    node.book.recall(Memory { owners: vec![("a".to_owned(), node.now)], asked: vec![] });
    let pods = [("a-2", 9), ("b-1", 9)];
    assert_eq!(
        node.round(&[critical(12, &pods)]),
        ["notify b-1", "evict b-1", "notify a-2", "evict a-2"],
        "the owner at rest comes last"
    );
}

#[test]
fn killing_is_the_last_rung_and_must_be_allowed() {
    for allowed in [false, true] {
        let mut node = Node::with(&["a-1"]);
        node.manners.kill_after = allowed.then_some(10 * S);
        let needs = [critical(5, &[("a-1", 9)])];
        assert_eq!(node.round(&needs), ["notify a-1", "evict a-1"]);
        node.answer("a-1", Answer::Refuses { wait: Duration::ZERO });
        node.round(&needs);
        assert_eq!(node.wait(7 * S).round(&needs), [""; 0], "not critical for long enough");
        let want: &[&str] = if allowed { &["kill a-1"] } else { &[] };
        let steps: Vec<_> =
            (0..3).flat_map(|_| node.round(&needs)).filter(|w| w.starts_with("kill")).collect();
        assert_eq!(steps, want, "allowed: {allowed}");
    }
}

#[test]
fn who_was_never_asked_is_never_killed() {
    let mut node = Node::with(&["a-1", "b-1"]);
    node.manners.kill_after = Some(10 * S);
    let needs = [critical(5, &[("a-1", 9), ("b-1", 9)])];
    node.round(&needs);
    node.answer("a-1", Answer::Leaves);
    node.present.remove("a-1");
    let words: Vec<_> = (0..3).flat_map(|_| node.round(&[critical(5, &[("b-1", 9)])])).collect();
    assert_eq!(words, [""; 0], "the node rests");
}

#[test]
fn a_restart_forgets_neither_owners_nor_notices() {
    let mut node = Node::with(&["a-1", "b-1", "c-1"]);
    let needs = [need(15, &[("a-1", 9), ("b-1", 9), ("c-1", 9)])];
    node.round(&needs);
    node.wait(2 * S).round(&needs);
    node.answer("a-1", Answer::Leaves);
    // Killed between the question to the second pod and its answer.
    let memory = node.book.remember(&node.manners, node.now);
    assert_eq!(memory.asked.len(), 2);
    let mut next = Node { book: Book::new(node.now), present: node.present.clone(), ..node };
    next.book.recall(memory);
    assert_eq!(next.round(&needs), [""; 0], "both count as gone");
    next.present.remove("a-1");
    next.present.remove("b-1");
    next.round(&[]);
    let owners: Vec<_> = next.book.owners().map(|(owner, _)| owner).collect();
    assert_eq!(owners, ["a", "b"]);
}

#[test]
fn a_notice_of_an_earlier_process_is_taken_back_or_followed() {
    for is_needed in [false, true] {
        let mut node = Node::with(&["a-1", "b-1"]);
        node.present.get_mut("b-1").unwrap().noticed_for = Some(node.now);
        let needs = [need(5, &[("a-1", 9), ("b-1", 9)])];
        let needs: &[_] = if is_needed { &needs } else { &[] };
        let want = if is_needed { "evict b-1" } else { "withdraw b-1" };
        assert_eq!(node.round(needs), [want]);
    }
}

proptest! {
    /// Whatever happens: nobody is evicted without notice, an owner's pod is not hit again within its
    /// rest unless memory runs out, and a pod that is being deleted is left alone.
    #[test]
    fn manners_are_kept(rounds in proptest::collection::vec(
        (0..40i64, 0..8u8, any::<bool>(), 0..4u8), 1..80,
    )) {
        let names = ["a-1", "a-2", "b-1", "c-1"];
        let mut node = Node::with(&names);
        let mut told: BTreeSet<&str> = BTreeSet::new();
        let mut hit: BTreeMap<String, Duration> = BTreeMap::new();
        for (release, deleted, is_critical, answer) in rounds {
            let is_critical = is_critical && release > 35;
            if let Some(name) = names.get(usize::from(deleted)) {
                let pod = node.present.get_mut(name).unwrap();
                pod.deleted_by = pod.deleted_by.xor(Some(node.now + 30 * S));
            }
            let need = Need { is_critical, ..need(release, &names.map(|name| (name, 9))) };
            node.now += S;
            let steps = node.book.steps(&[need], &node.present, &node.manners, node.now);
            for step in steps {
                match step {
                    Step::Notify { ask, .. } => { told.insert(ask.id); }
                    Step::Withdraw(id) => { told.remove(id); }
                    Step::Kill(_) => prop_assert!(false, "killing is not allowed"),
                    Step::Evict(ask) => {
                        prop_assert!(told.contains(ask.id), "{} was not told", ask.id);
                        prop_assert!(node.present[ask.id].deleted_by.is_none());
                        let owner = node.present[ask.id].owner.clone();
                        let answer = match answer {
                            0 => Answer::Leaves,
                            1 => Answer::Gone,
                            2 => Answer::Refuses { wait: S },
                            _ => Answer::Unknown,
                        };
                        if answer == Answer::Leaves {
                            let told_before = hit.get(&owner).is_none_or(|at| {
                                is_critical || node.now - *at >= node.manners.owner_rest
                                    || node.now - *at <= node.manners.memory_notice + S
                            });
                            prop_assert!(told_before, "{owner} was hit again");
                            hit.insert(owner, node.now);
                        }
                        node.book.take(&ask.id, answer, &node.manners, node.now);
                    }
                }
            }
        }
    }
}
