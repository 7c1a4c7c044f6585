//! Runs the API alone: `cargo run -p apiserver --example serve -- STATE_DIR PORT`.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use apiserver::http::{ApiServer, Clock, Credentials, Options, RandomIds, SystemClock, listen};
use apiserver::store::{Limits, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: serve STATE_DIR PORT")?);
    let port: u16 = arguments.next().ok_or("usage: serve STATE_DIR PORT")?.parse()?;
    let names = ["127.0.0.1", "localhost"].map(str::to_owned);
    let credentials = Credentials::load_or_create(&dir, &names, &RandomIds, SystemClock.now())?;
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], port)), false).await?;
    let url = format!("https://{}", listener.local_addr()?);
    let kubeconfig = credentials.write_kubeconfig(&dir, &url)?;
    let options = Options {
        token: Some(credentials.token.clone()),
        clock: Arc::new(SystemClock),
        ..Options::default()
    };
    let server = ApiServer::start(Store::in_memory(Limits::default())?, options).await;
    println!("ready {url} --kubeconfig {}", kubeconfig.display());
    server.serve(listener, Some(credentials.server_config()?), std::future::pending()).await;
    Ok(())
}
