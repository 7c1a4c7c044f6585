//! Whatever fits the shape of a value reads, prints, and reads back the same.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api::metadata::device::{
    DeviceAllocateHints, DeviceAllocations, DeviceJointAllocate, GpuPartitionSpec,
    GpuPartitionTable, Minors,
};
use api::metadata::eviction::{EvictionCost, SoftEviction};
use api::metadata::gang::NetworkTopologySpec;
use api::metadata::node::{
    AmplificationRatios, NodeReservation, OriginAllocatable, SystemQosResource,
    ThirdPartyAllocations, UsageThresholds,
};
use api::metadata::pod::{
    ExtendedResourceSpec, NumaTopologySpec, OomScoreAdj, PodMemoryQos, PodNetworkQos,
    ResctrlConfig, ResourceSpec, ResourceStatus, SchedulingHint,
};
use api::metadata::reservation::{
    ExactMatchSpec, ReservationAffinity, ReservationAllocated, ResizeAllocatable, RestrictedOptions,
};
use api::metadata::topology::{
    CpuBasicInfo, CpuManagerPolicy, CpuSharedPools, CpuTopology, PodCpuAlloc, PodCpuAllocs,
};
use api::metadata::{ResourceList, Switch, Wire};
use api::resources::ReplaceResources;
use api::shape::Shape;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use schemars::JsonSchema;
use serde_json::{Value, json};
use units::{CpuSet, Format, GoDuration, Percent, Quantity, Ratio};

/// JSON that fits a shape, with fields left out at random.
fn fitting(shape: &Shape) -> BoxedStrategy<Value> {
    match shape {
        Shape::Any => prop_oneof![Just(json!({"x": 1})), Just(json!("x"))].boxed(),
        Shape::Bool => any::<bool>().prop_map(Into::into).boxed(),
        Shape::Int { bits: 32 } => any::<i32>().prop_map(Into::into).boxed(),
        Shape::Int { .. } => any::<i64>().prop_map(Into::into).boxed(),
        Shape::Float => (0..400_u32).prop_map(|n| json!(f64::from(n) / 100.0)).boxed(),
        Shape::Text => "[a-z\"\\\\é]{0,6}".prop_map(Into::into).boxed(),
        Shape::IntOrText => prop_oneof![Just(json!(30)), Just(json!("30%"))].boxed(),
        Shape::Duration => {
            any::<i64>().prop_map(|n| GoDuration::from_nanos(n).to_string().into()).boxed()
        }
        Shape::Quantity => quantity().prop_map(|amount| amount.to_string().into()).boxed(),
        Shape::CpuSet => prop::collection::vec(0..256_u16, 0..6)
            .prop_map(|cpus| cpus.into_iter().collect::<CpuSet>().to_string().into())
            .boxed(),
        Shape::Word(words) => prop::sample::select(words.clone()).prop_map(Into::into).boxed(),
        Shape::List(item) => {
            prop::collection::vec(fitting(item), 0..3).prop_map(Into::into).boxed()
        }
        Shape::Map(inner) => prop::collection::btree_map("[a-z./-]{1,8}", fitting(inner), 0..3)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
            .boxed(),
        Shape::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, shape)| {
                    (Just(name.clone()), prop::option::weighted(0.8, fitting(shape)))
                })
                .collect();
            fields
                .prop_map(|fields| {
                    let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
                    Value::Object(given.collect())
                })
                .boxed()
        }
    }
}

fn quantity() -> impl Strategy<Value = Quantity> {
    let format = prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi)];
    (0..i64::MAX / 4, format).prop_map(|(milli, format)| Quantity::from_milli(milli, format))
}

/// The law itself; how many texts were read at all.
fn holds<T: Wire + PartialEq + Debug>(text: &str) -> Result<bool, TestCaseError> {
    let (Some(value), _) = T::parse(text) else { return Ok(false) };
    let printed = value.print();
    let (again, findings) = T::parse(&printed);
    prop_assert_eq!(&findings, &[], "{}", printed);
    prop_assert_eq!(again.as_ref(), Some(&value), "{}", printed);
    prop_assert_eq!(value.print(), printed, "printing depends on the value only");
    Ok(true)
}

/// Checks the law on texts made from the type's own shape.
fn json_round_trip<T: Wire + PartialEq + Debug + JsonSchema>() {
    let shape = Shape::of::<T>();
    let read = std::cell::Cell::new(0);
    TestRunner::new(Config::with_cases(48))
        .run(&fitting(&shape), |value| {
            read.set(read.get() + usize::from(holds::<T>(&value.to_string())?));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{}: {error}", std::any::type_name::<T>()));
    assert!(
        read.get() >= 12,
        "{}: only {} texts were read",
        std::any::type_name::<T>(),
        read.get()
    );
}

#[test]
fn json_values_of_pods() {
    json_round_trip::<ExtendedResourceSpec>();
    json_round_trip::<PodMemoryQos>();
    json_round_trip::<PodNetworkQos>();
    json_round_trip::<ResctrlConfig>();
    json_round_trip::<BTreeMap<String, OomScoreAdj>>();
    json_round_trip::<ResourceSpec>();
    json_round_trip::<ResourceStatus>();
    json_round_trip::<NumaTopologySpec>();
    json_round_trip::<SchedulingHint>();
    json_round_trip::<api::strategy::CpuBurstStrategy>();
    json_round_trip::<api::strategy::CpuQos>();
    json_round_trip::<api::strategy::BlkioQos>();
    json_round_trip::<BTreeMap<String, i64>>();
    json_round_trip::<NetworkTopologySpec>();
    json_round_trip::<Vec<String>>();
}

#[test]
fn json_values_of_devices_and_reservations() {
    json_round_trip::<DeviceAllocations>();
    json_round_trip::<DeviceAllocateHints>();
    json_round_trip::<DeviceJointAllocate>();
    json_round_trip::<GpuPartitionSpec>();
    json_round_trip::<GpuPartitionTable>();
    json_round_trip::<ReservationAllocated>();
    json_round_trip::<ReservationAffinity>();
    json_round_trip::<RestrictedOptions>();
    json_round_trip::<ExactMatchSpec>();
    json_round_trip::<ResizeAllocatable>();
    json_round_trip::<Vec<api::kind::reservation::ReservationOwner>>();
    json_round_trip::<k8s_openapi::api::core::v1::ObjectReference>();
}

#[test]
fn json_values_of_nodes() {
    json_round_trip::<api::strategy::ColocationStrategy>();
    json_round_trip::<NodeReservation>();
    json_round_trip::<SystemQosResource>();
    json_round_trip::<OriginAllocatable>();
    json_round_trip::<ThirdPartyAllocations>();
    json_round_trip::<UsageThresholds>();
    json_round_trip::<ResourceList>();
    json_round_trip::<CpuTopology>();
    json_round_trip::<CpuSharedPools>();
    json_round_trip::<CpuManagerPolicy>();
    json_round_trip::<CpuBasicInfo>();
}

proptest! {
    #![proptest_config(Config::with_cases(128))]

    #[test]
    fn numbers_and_texts(
        percent in 0..100_000_i64,
        hundredths in 0..1_000_000_u32,
        nanos in any::<i64>(),
        cost in any::<i32>(),
        minors in prop::collection::vec(any::<i32>(), 1..5),
        amount in quantity(),
        on in any::<bool>(),
        score in -1000..=1000_i32,
    ) {
        prop_assert!(holds::<Percent>(&Percent(percent).print())?);
        prop_assert_eq!(Percent::parse(&Percent(percent).print()).0, Some(Percent(percent)));
        prop_assert!(holds::<Ratio>(&Ratio::from_hundredths(hundredths).print())?);
        prop_assert!(holds::<GoDuration>(&GoDuration::from_nanos(nanos).print())?);
        prop_assert!(holds::<EvictionCost>(&EvictionCost(cost).print())?);
        prop_assert!(holds::<Minors>(&Minors(minors).print())?);
        prop_assert!(holds::<Quantity>(&amount.print())?);
        prop_assert!(holds::<Switch>(&Switch(on).print())?);
        prop_assert!(holds::<bool>(&on.print())?);
        prop_assert!(holds::<OomScoreAdj>(&OomScoreAdj(score).print())?);
    }

    #[test]
    fn ratios_keep_two_decimals(ratios in prop::collection::btree_map("[a-z\"]{1,5}", 0..100_000_u32, 0..4)) {
        let ratios = ratios.into_iter().map(|(name, n)| (name, Ratio::from_hundredths(n)));
        let ratios = AmplificationRatios(ratios.collect());
        prop_assert_eq!(AmplificationRatios::parse(&ratios.print()).0, Some(ratios));
    }

    #[test]
    fn pod_cpu_allocs(names in prop::collection::vec("[a-z]{0,5}", 0..3), kubelet in any::<bool>()) {
        let alloc = |name| PodCpuAlloc { name, managed_by_kubelet: kubelet, ..Default::default() };
        let allocs = PodCpuAllocs(names.into_iter().map(alloc).collect());
        prop_assert_eq!(PodCpuAllocs::parse(&allocs.print()).0, Some(allocs));
    }

    #[test]
    fn replacements(text in "[a-c:, ]{0,20}") {
        prop_assert!(holds::<ReplaceResources>(&text)?);
    }

    /// No text makes a reader panic.
    #[test]
    fn any_text_is_survived(text in "\\PC{0,40}") {
        let _ = holds::<ReservationAffinity>(&text)?;
        let _ = holds::<AmplificationRatios>(&text)?;
        let _ = holds::<PodCpuAllocs>(&text)?;
        let _ = holds::<EvictionCost>(&text)?;
        let _ = holds::<Percent>(&text)?;
        let _ = holds::<Minors>(&text)?;
        let _ = holds::<ReplaceResources>(&text)?;
        let _ = holds::<api::priority::SubPriority>(&text)?;
    }
}

#[test]
fn soft_evictions() {
    let text = r#"{"timestamp":"2025-05-25T03:36:38Z","initiator":"x"}"#;
    assert!(holds::<SoftEviction>(text).unwrap());
}
