//! What may a class or a pod do to a disk?
//!
//! One line a device and file, in the words of the kernel; v1 and v2 have different files for the same
//! wishes. A wish that is not given is no limit, and a device that is no longer mentioned goes back to
//! none.

/// A disk by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

/// Limits of one device; zero or nothing is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    pub read_iops: Option<u64>,
    pub write_iops: Option<u64>,
    pub read_bps: Option<u64>,
    pub write_bps: Option<u64>,
}

/// What the kernel's cost controller should keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    pub read_percent: u32,
    pub read_micros: u64,
    pub write_percent: u32,
    pub write_micros: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { read_percent: 95, read_micros: 3_000, write_percent: 95, write_micros: 3_000 }
    }
}

/// Neutral, on both versions.
pub const WEIGHT: u32 = 100;

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The files of v1 that hold a throttle, each with its line.
pub fn v1_lines(device: Device, throttle: &Throttle) -> [(&'static str, String); 4] {
    let line = |limit: Option<u64>| format!("{device} {}", limit.unwrap_or_default());
    [
        ("blkio.throttle.read_iops_device", line(throttle.read_iops)),
        ("blkio.throttle.write_iops_device", line(throttle.write_iops)),
        ("blkio.throttle.read_bps_device", line(throttle.read_bps)),
        ("blkio.throttle.write_bps_device", line(throttle.write_bps)),
    ]
}

/// The line of `io.max`.
pub fn v2_line(device: Device, throttle: &Throttle) -> String {
    let limit = |limit: Option<u64>| match limit.filter(|limit| *limit > 0) {
        Some(limit) => limit.to_string(),
        None => "max".to_owned(),
    };
    format!(
        "{device} rbps={} wbps={} riops={} wiops={}",
        limit(throttle.read_bps),
        limit(throttle.write_bps),
        limit(throttle.read_iops),
        limit(throttle.write_iops),
    )
}

/// The line of the weight file of either version.
pub fn weight_line(device: Device, weight: Option<u32>) -> String {
    format!("{device} {}", weight.unwrap_or(WEIGHT).clamp(1, WEIGHT))
}

/// The line of the cost controller's latency file; `None` turns it off for this device.
pub fn latency_line(device: Device, latency: Option<&Latency>) -> String {
    let Some(latency) = latency else {
        return format!("{device} enable=0");
    };
    format!(
        "{device} enable=1 ctrl=user rpct={} rlat={} wpct={} wlat={}",
        latency.read_percent, latency.read_micros, latency.write_percent, latency.write_micros,
    )
}

/// What a device can do, as its owner measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    pub read_bps: u64,
    pub read_seq_iops: u64,
    pub read_rand_iops: u64,
    pub write_bps: u64,
    pub write_seq_iops: u64,
    pub write_rand_iops: u64,
}

/// The line of the cost controller's model file; without a model the kernel has its own.
pub fn model_line(device: Device, model: Option<&Model>) -> String {
    let Some(model) = model else {
        return format!("{device} ctrl=auto");
    };
    format!(
        "{device} ctrl=user rbps={} rseqiops={} rrandiops={} wbps={} wseqiops={} wrandiops={}",
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

    const DISK: Device = Device { major: 8, minor: 16 };

    #[test]
    fn throttles_speak_both_versions() {
        let throttle =
            Throttle { read_iops: Some(2_048), write_bps: Some(1 << 20), ..Throttle::default() };
        let lines = v1_lines(DISK, &throttle).map(|(_, line)| line);
        assert_eq!(lines, ["8:16 2048", "8:16 0", "8:16 0", "8:16 1048576"]);
        assert_eq!(v2_line(DISK, &throttle), "8:16 rbps=max wbps=1048576 riops=2048 wiops=max");
    }

    #[test]
    fn zero_is_no_limit_on_both() {
        let throttle = Throttle { read_bps: Some(0), ..Throttle::default() };
        assert_eq!(v1_lines(DISK, &throttle)[2].1, "8:16 0");
        assert_eq!(v2_line(DISK, &throttle), "8:16 rbps=max wbps=max riops=max wiops=max");
    }

    #[test]
    fn weights_stay_in_range() {
        let cases = [
            (None, "8:16 100"),
            (Some(60), "8:16 60"),
            (Some(0), "8:16 1"),
            (Some(500), "8:16 100"),
        ];
        for (weight, want) in cases {
            assert_eq!(weight_line(DISK, weight), want);
        }
    }

    #[test]
    fn cost_lines_are_the_kernels() {
        let latency = Latency::default();
        let on = "8:16 enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000";
        assert_eq!(latency_line(DISK, Some(&latency)), on);
        assert_eq!(latency_line(DISK, None), "8:16 enable=0");
        assert_eq!(model_line(DISK, None), "8:16 ctrl=auto");
        let model = Model {
            read_bps: 1,
            read_seq_iops: 2,
            read_rand_iops: 3,
            write_bps: 4,
            write_seq_iops: 5,
            write_rand_iops: 6,
        };
        let user = "8:16 ctrl=user rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6";
        assert_eq!(model_line(DISK, Some(&model)), user);
    }
}
