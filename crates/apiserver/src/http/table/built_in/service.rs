//! Services and where they lead.

use serde_json::{Value, json};

use super::{Sheet, created, int_at, joined, list_at, name, or_none, pairs, str_at, text, wide};

pub(super) const SERVICES: Sheet = Sheet {
    columns: &[
        text("Name"),
        text("Type"),
        text("Cluster-IP"),
        text("External-IP"),
        text("Port(s)"),
        text("Age"),
        wide("Selector"),
    ],
    cells: |object, now| {
        let address = match str_at(object, "/spec/clusterIPs/0") {
            "" => str_at(object, "/spec/clusterIP"),
            address => address,
        };
        vec![
            name(object),
            json!(str_at(object, "/spec/type")),
            or_none(address),
            json!(external(object)),
            or_none(ports(object)),
            created(object, now),
            pairs(object.pointer("/spec/selector")),
        ]
    },
};

fn external(service: &Value) -> String {
    let own = joined(list_at(service, "/spec/externalIPs").iter().filter_map(Value::as_str));
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    match str_at(service, "/spec/type") {
        "ExternalName" => str_at(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = list_at(service, "/status/loadBalancer/ingress").iter();
            let balanced = joined(ingress.map(|entry| match str_at(entry, "/ip") {
                "" => str_at(entry, "/hostname"),
                ip => ip,
            }));
            match (balanced.is_empty(), own.is_empty()) {
                (false, false) => format!("{balanced},{own}"),
                (false, true) => balanced,
                (true, _) => or(own, "<pending>"),
            }
        }
        _ => or(own, "<none>"),
    }
}

fn ports(service: &Value) -> String {
    let list: Vec<String> = list_at(service, "/spec/ports")
        .iter()
        .map(|port| {
            let protocol = match str_at(port, "/protocol") {
                "" => "TCP",
                protocol => protocol,
            };
            match int_at(port, "/nodePort") {
                0 => format!("{}/{protocol}", int_at(port, "/port")),
                node => format!("{}:{node}/{protocol}", int_at(port, "/port")),
            }
        })
        .collect();
    list.join(",")
}

pub(super) const ENDPOINTS: Sheet = Sheet {
    columns: &[text("Name"), text("Endpoints"), text("Age")],
    cells: |object, now| vec![name(object), or_none(endpoints(object)), created(object, now)],
};

/// The first three addresses, and how many there are beyond.
fn endpoints(object: &Value) -> String {
    let mut all: Vec<String> = Vec::new();
    for subset in list_at(object, "/subsets") {
        for address in list_at(subset, "/addresses") {
            let ip = str_at(address, "/ip");
            let ports = list_at(subset, "/ports");
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{ip}:{}", int_at(port, "/port"))));
        }
    }
    match all.len() {
        0..=3 => all.join(","),
        count => format!("{} + {} more...", all[..3].join(","), count - 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_show_their_ports_and_addresses() {
        let service = json!({"spec": {"type": "NodePort", "ports": [
            {"port": 80, "nodePort": 30080, "protocol": "TCP"},
            {"port": 53, "protocol": "UDP"},
        ]}});
        assert_eq!(ports(&service), "80:30080/TCP,53/UDP");
        assert_eq!(external(&service), "<none>");
        assert_eq!(external(&json!({"spec": {"type": "LoadBalancer"}})), "<pending>");
        let address = |ip: &str| json!({"ip": ip});
        let object = json!({"subsets": [{
            "addresses": [address("10.0.0.1"), address("10.0.0.2")],
            "ports": [{"port": 80}, {"port": 81}],
        }]});
        assert_eq!(endpoints(&object), "10.0.0.1:80,10.0.0.1:81,10.0.0.2:80 + 1 more...");
    }
}
