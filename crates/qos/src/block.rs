//! What may a class or a pod do to a disk?
//!
//! A wish that is not given, or is zero, is no limit. The cost controller is told in the kernel's own
//! words, which are the same on v1 and v2.

/// Limits of one device; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    pub read_iops: Option<u64>,
    pub write_iops: Option<u64>,
    pub read_bps: Option<u64>,
    pub write_bps: Option<u64>,
}

impl Throttle {
    /// Configuration has 0 for no limit.
    #[must_use]
    pub fn without_zeros(self) -> Self {
        let set = |limit: Option<u64>| limit.filter(|limit| *limit > 0);
        Self {
            read_iops: set(self.read_iops),
            write_iops: set(self.write_iops),
            read_bps: set(self.read_bps),
            write_bps: set(self.write_bps),
        }
    }
}

/// A share of the disk's time among siblings; 100 is neutral.
pub fn weight(percent: Option<i64>) -> u64 {
    u64::try_from(percent.unwrap_or(100).clamp(1, 100)).unwrap_or(1)
}

/// What the kernel's cost controller should keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    pub read_percent: i64,
    pub read_micros: i64,
    pub write_percent: i64,
    pub write_micros: i64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { read_percent: 95, read_micros: 3_000, write_percent: 95, write_micros: 3_000 }
    }
}

/// The words of the latency file; `None` turns the controller off for the device.
pub fn latency_words(latency: Option<&Latency>) -> String {
    let Some(latency) = latency else {
        return "enable=0".to_owned();
    };
    format!(
        "enable=1 ctrl=user rpct={} rlat={} wpct={} wlat={}",
        latency.read_percent, latency.read_micros, latency.write_percent, latency.write_micros,
    )
}

/// What a device can do, as its owner measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    pub read_bps: i64,
    pub read_seq_iops: i64,
    pub read_rand_iops: i64,
    pub write_bps: i64,
    pub write_seq_iops: i64,
    pub write_rand_iops: i64,
}

/// The words of the model file; without a model the kernel has its own.
pub fn model_words(model: Option<&Model>) -> String {
    let Some(model) = model else {
        return "ctrl=auto".to_owned();
    };
    format!(
        "ctrl=user rbps={} rseqiops={} rrandiops={} wbps={} wseqiops={} wrandiops={}",
        model.read_bps,
        model.read_seq_iops,
        model.read_rand_iops,
        model.write_bps,
        model.write_seq_iops,
        model.write_rand_iops,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit() {
        let throttle = Throttle { read_bps: Some(0), write_bps: Some(9), ..Throttle::default() };
        let want = Throttle { write_bps: Some(9), ..Throttle::default() };
        assert_eq!(throttle.without_zeros(), want);
    }

    #[test]
    fn weights_stay_in_range() {
        let cases = [(None, 100), (Some(60), 60), (Some(0), 1), (Some(-3), 1), (Some(500), 100)];
        for (percent, want) in cases {
            assert_eq!(weight(percent), want, "{percent:?}");
        }
    }

    #[test]
    fn cost_words_are_the_kernels() {
        let on = "enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000";
        assert_eq!(latency_words(Some(&Latency::default())), on);
        assert_eq!(latency_words(None), "enable=0");
        assert_eq!(model_words(None), "ctrl=auto");
        let model = Model {
            read_bps: 1,
            read_seq_iops: 2,
            read_rand_iops: 3,
            write_bps: 4,
            write_seq_iops: 5,
            write_rand_iops: 6,
        };
        let user = "ctrl=user rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6";
        assert_eq!(model_words(Some(&model)), user);
    }
}
