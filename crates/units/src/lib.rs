//! Numbers with units, and the exact text forms Kubernetes, Go and Linux give them.
//!
//! | type | text | value |
//! |---|---|---|
//! | [`Quantity`] | `1500m`, `20Gi`, `12e6` | exact multiples of 10⁻⁹ |
//! | [`MilliCpu`], [`Bytes`], [`Micros`], [`Percent`] | `5400m`, `20Gi`, `100ms`, `65%` | plain integers that cannot be mixed up |
//! | [`Ratio`] | `1.20` | exact millionths |
//! | [`GoDuration`] | `1h30m0s` | nanoseconds |
//! | [`CpuSet`] | `0-3,8` or `ff,ffffffff` | set of CPU numbers |
//! | [`CpuLayout`] | none | where each CPU sits |
//!
//! Nothing here rounds silently: where a number may not fit, the caller names a [`Rounding`].
//! Arithmetic saturates instead of wrapping, so hostile input cannot turn a large request into a
//! small or negative one. Everything is integer arithmetic; floats appear only where the rounding
//! of somebody else's float is part of the wire ([`Percent::from_ratio_label`], fractions in
//! [`GoDuration`]) and where a JSON reader has already made one.

mod amount;
mod bytes;
mod cpu_layout;
mod cpu_memory;
mod cpuset;
mod duration;
mod excerpt;
mod micros;
mod milli_cpu;
mod percent;
mod quantity;
mod ratio;
mod rounding;

pub use bytes::Bytes;
pub use cpu_layout::{Cpu, CpuLayout};
pub use cpu_memory::CpuMemory;
pub use cpuset::{CpuSet, CpuSetError, Mask};
pub use duration::{DurationError, GoDuration};
pub use excerpt::Excerpt;
pub use micros::Micros;
pub use milli_cpu::MilliCpu;
pub use percent::{Percent, RatioLabelError};
pub use quantity::{Format, Quantity, QuantityError, Scale};
pub use ratio::{Ratio, RatioError};
pub use rounding::Rounding;
