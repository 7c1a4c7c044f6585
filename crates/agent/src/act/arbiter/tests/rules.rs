//! What holds for every target, shown on knobs and files.

use groups::Version;
use qos::wish::KernelFile;

use super::*;

const TIER_QUOTA: &str = "sys/fs/cgroup/cpu,cpuacct/kubepods/besteffort/cpu.cfs_quota_us";
const FACTOR: &str = "proc/sys/vm/watermark_scale_factor";
const FEATURES: &str = "sys/kernel/debug/sched/features";

fn factor(value: &str, rank: Rank) -> Wish {
    Wish::file(KernelFile::whole(format!("/{FACTOR}")), rank, value, "because")
}

#[test]
fn a_wish_is_written_once_and_taken_back() {
    let mut rig = Machine::new(Version::V1);
    let before = rig.show();
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    assert_eq!(rig.settle(), [written("-1", "50000")]);
    assert_eq!(rig.text(TIER_QUOTA), "50000");
    rig.reads();
    assert_eq!((rig.settle(), rig.reads()), (vec![], 0), "a quiet round costs nothing");

    rig.arbiter.withdraw_all();
    assert_eq!(rig.settle(), [written("50000", "-1")]);
    assert!(rig.arbiter.is_clean());
    assert_eq!(rig.differs(&before), [""; 0]);
}

#[test]
fn a_wish_that_lapses_is_taken_back() {
    let mut rig = Machine::new(Version::V1);
    let until = Some(Duration::from_secs(3));
    rig.arbiter.post("fast", vec![quota(TIER, 50_000)], until);
    rig.settle();
    assert_eq!(rig.text(TIER_QUOTA), "50000");
    rig.settle();
    rig.settle();
    assert_eq!(rig.text(TIER_QUOTA), "-1");
}

#[test]
fn parents_and_children_are_written_in_an_order_the_kernel_takes() {
    let mut rig = Machine::new(Version::V1);
    for (tier, pod) in [(50_000, 20_000), (10_000, 5_000), (90_000, 80_000)] {
        let wishes = vec![quota(TIER, tier), quota(POD, pod)];
        rig.arbiter.post("suppress", wishes, None);
        let outcomes = rig.settle();
        let is_written = |outcome: &Outcome| matches!(outcome, Outcome::Written { .. });
        assert!(outcomes.len() == 2 && outcomes.iter().all(is_written), "{outcomes:?}");
        assert_eq!(rig.text(TIER_QUOTA), tier.to_string());
    }
}

#[test]
fn wishes_of_two_owners_for_one_file_are_folded_by_rank() {
    let mut rig = Machine::new(Version::V2);
    // The name that comes last used to win.
    rig.arbiter.post("a", vec![factor("200", Rank::AVOIDANCE)], None);
    rig.arbiter.post("z", vec![factor("150", Rank::POD)], None);
    let changes = rig.arbiter.settle(Duration::from_secs(1));
    assert_eq!((changes[0].owner, changes.len()), (Some("a"), 1));
    assert_eq!(rig.text(FACTOR), "200");
    rig.arbiter.post("a", Vec::new(), None);
    assert_eq!(rig.settle(), [written("200", "150")]);
    rig.arbiter.post("z", Vec::new(), None);
    assert_eq!(rig.settle(), [written("150", "10")]);
}

#[test]
fn a_change_says_who_wanted_it_and_why() {
    let mut rig = Machine::new(Version::V2);
    rig.arbiter.post("system", vec![factor("150", Rank::POD)], None);
    let changes = rig.arbiter.settle(Duration::from_secs(1));
    let target = Target::File(KernelFile::whole(format!("/{FACTOR}")));
    let (owner, why, outcome) = (Some("system"), "because".to_owned(), written("10", "150"));
    assert_eq!(changes, [Change { target, owner, why, outcome }]);
}

#[test]
fn a_word_of_a_list_is_switched_and_an_unknown_one_is_unsupported() {
    let mut rig = Machine::new(Version::V2);
    let before = rig.show();
    let word = |word: &str| {
        let file = KernelFile::word(format!("/{FEATURES}"), word);
        Wish::file(file, Rank::POD, word, "because")
    };
    rig.arbiter.post("system", vec![word("HRTICK"), word("NOSUCH")], None);
    let outcomes = rig.settle();
    assert!(outcomes.contains(&written("NO_HRTICK", "HRTICK")), "{outcomes:?}");
    assert!(outcomes.contains(&Outcome::Unsupported), "{outcomes:?}");
    assert_eq!(rig.text(FEATURES), "GENTLE HRTICK WAKEUP");
    rig.arbiter.withdraw_all();
    rig.settle();
    assert_eq!(rig.differs(&before), [""; 0]);
}

#[test]
fn somebody_else_s_change_is_kept_and_told_once() {
    for (path, wishes, ours, theirs) in [
        (TIER_QUOTA, vec![quota(TIER, 50_000)], "50000", "77000"),
        (FACTOR, vec![factor("150", Rank::POD)], "150", "77"),
    ] {
        let mut rig = Machine::new(Version::V1);
        rig.arbiter.post("a", wishes, None);
        rig.settle();
        rig.fake.set(path, format!("{theirs}\n"));
        rig.now += TRUST.as_secs();
        let overridden = Outcome::Overridden { ours: ours.to_owned(), theirs: theirs.to_owned() };
        assert_eq!(rig.settle(), [overridden]);
        let others = vec![quota(TIER, 10_000), factor("99", Rank::POD)];
        rig.arbiter.post(
            "a",
            others
                .into_iter()
                .filter(|w| path == FACTOR || w.target.to_string().contains("cfs"))
                .collect(),
            None,
        );
        rig.now += TRUST.as_secs();
        rig.settle();
        rig.arbiter.withdraw_all();
        rig.settle();
        assert_eq!(rig.text(path), theirs);
    }
}

#[test]
fn a_reset_is_written_again() {
    let mut rig = Machine::new(Version::V1);
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    rig.settle();
    rig.fake.set(TIER_QUOTA, "-1\n");
    rig.now += TRUST.as_secs();
    assert_eq!(rig.settle(), [written("-1", "50000")]);
}

#[test]
fn a_missing_file_is_asked_for_once() {
    let mut rig = Machine::new(Version::V1);
    let bound = Bound::Set(Value::Number(Some(-1)));
    rig.arbiter.post("identity", vec![wish(knob(TIER, Knob::BvtWarp), Rank::POD, bound)], None);
    assert_eq!(rig.settle(), [Outcome::Unsupported]);
    rig.reads();
    rig.now += 3_600;
    assert_eq!((rig.settle(), rig.reads()), (vec![], 0));
}

#[test]
fn a_refusal_is_tried_again_less_and_less_often() {
    let mut rig = Machine::new(Version::V1);
    rig.fuse.refuse_after(0);
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    let refusals = (0..1_000).filter(|_| !rig.settle().is_empty()).count();
    assert!((5..=20).contains(&refusals), "{refusals} refusals in 1,000 rounds");
    rig.fuse.refuse_after(usize::MAX);
    rig.now += LONGEST_PAUSE.as_secs();
    rig.settle();
    assert_eq!(rig.text(TIER_QUOTA), "50000");
}

#[test]
fn nothing_is_written_that_cannot_be_kept() {
    let mut rig = Machine::new(Version::V2);
    let before = rig.show();
    rig.arbiter.fill_disk();
    rig.arbiter.post("all", targets::every_kind(), None);
    let outcomes = rig.settle();
    let is_so = |outcome: &Outcome| matches!(outcome, Outcome::LedgerFailed { .. });
    assert!(outcomes.len() >= 9 && outcomes.iter().all(is_so), "{outcomes:?}");
    assert_eq!(rig.differs(&before), [""; 0]);
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut rig = Machine::new(Version::V2);
    rig.arbiter.post("suppress", vec![quota(OTHER_POD, 50_000)], None);
    rig.settle();
    rig.fake.remove(format!("sys/fs/cgroup/{OTHER_POD}"));
    rig.arbiter.withdraw_all();
    assert_eq!(rig.settle(), []);
    assert!(rig.arbiter.is_clean());
}

const OTHER_POD: &str = machine::OTHER;

#[test]
fn an_unknown_kind_of_value_is_refused_and_harms_nobody() {
    let mut rig = Machine::new(Version::V2);
    let cpus = Bound::Set(Value::Cpus("0-1".parse().unwrap()));
    let confused = wish(knob(TIER, Knob::CfsQuota), Rank::POD, cpus);
    rig.arbiter.post("confused", vec![confused, quota(POD, 50_000)], None);
    assert_eq!(rig.settle().len(), 1);
}

#[test]
fn vendor_switches_go_back_only_after_the_last_cookie() {
    let mut rig = Machine::new(Version::V2);
    let before = rig.show();
    let switch = KernelFile::whole(qos::cookies::IDENTITIES);
    let off = Wish::file(switch, Rank::AVOIDANCE, "0", "because");
    rig.arbiter.post("cookies", vec![off, targets::cookie("", &[POD])], None);
    rig.settle();
    assert_eq!(rig.text(&qos::cookies::IDENTITIES[1..]), "0");
    rig.fuse.refuse_after(0);
    rig.arbiter.withdraw_all();
    rig.settle();
    assert_eq!(rig.text(&qos::cookies::IDENTITIES[1..]), "0", "a cookie is left");
    rig.fuse.refuse_after(usize::MAX);
    rig.now += LONGEST_PAUSE.as_secs();
    rig.settle();
    rig.settle();
    assert_eq!(rig.differs(&before), [""; 0]);
}
