//! Where are slow targets written, so that nobody waits for them?
//!
//! A program is run, thousands of threads are moved, a disk is waited for: that takes longer than the 50 ms in
//! which best-effort has to be held back. In an agent one thread of its own carries such orders out, one
//! after the other, each with a time limit. It ends with whoever owns the lane, so nobody writes once the
//! agent's lock is free. Where nobody is in a hurry, orders are carried out at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::backend::Limit;
use super::writer::{Order, Report, Writer};
use crate::worker::{End, Worker};

/// How long one order may take.
pub(super) const LIMIT: Duration = Duration::from_secs(2);

/// How many orders may wait; when there are more, they are given in a later round. As many reports may wait, and
/// the thread waits for somebody to take them.
const WAITING: usize = 32;

#[derive(Debug)]
pub(super) struct Lane {
    executor: Executor,
    /// Ends the order that is being carried out.
    is_cancelled: Arc<AtomicBool>,
    /// No further order is begun.
    is_closed: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Executor {
    Inline { writer: Box<Writer>, reports: Vec<Report> },
    Thread(SlowThread),
}

/// In the order in which they go: the thread sees the end of its orders before it is waited for.
#[derive(Debug)]
struct SlowThread {
    orders: SyncSender<Order>,
    reports: Receiver<Report>,
    worker: Worker,
}

impl Lane {
    /// Carries orders out at once.
    pub(super) fn inline(writer: Writer) -> Self {
        let executor = Executor::Inline { writer: Box::new(writer), reports: Vec::new() };
        Self { executor, is_cancelled: Arc::default(), is_closed: Arc::default() }
    }

    /// Carries orders out on a thread of its own.
    pub(super) fn thread(writer: Writer) -> io::Result<Self> {
        let (is_cancelled, is_closed) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (orders, given) = sync_channel(WAITING);
        let (done, reports) = sync_channel(WAITING);
        let flags = (is_cancelled.clone(), is_closed.clone());
        let work = move |_: &AtomicBool| serve(writer, &given, &done, &flags);
        let worker = Worker::start("slow-writes", work)?;
        let executor = Executor::Thread(SlowThread { orders, reports, worker });
        Ok(Self { executor, is_cancelled, is_closed })
    }

    /// Says when the thread has ended.
    pub(super) fn end(&mut self) -> Option<End> {
        match &mut self.executor {
            Executor::Inline { .. } => None,
            Executor::Thread(thread) => thread.worker.end(),
        }
    }

    /// Gives an order; whether there was room for it.
    pub(super) fn send(&mut self, order: Order) -> bool {
        match &mut self.executor {
            Executor::Inline { writer, reports } => {
                reports.extend(writer.settle(vec![order], &Limit::new(LIMIT, &Arc::default())));
                true
            }
            Executor::Thread(thread) => thread.orders.try_send(order).is_ok(),
        }
    }

    /// What was carried out since.
    pub(super) fn reports(&mut self) -> Vec<Report> {
        match &mut self.executor {
            Executor::Inline { reports, .. } => std::mem::take(reports),
            Executor::Thread(thread) => thread.reports.try_iter().collect(),
        }
    }

    /// Nobody wants any more what is being done.
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Executor::Thread(thread) = &self.executor {
            thread.worker.dismiss();
        }
        // In this order: whoever clears the second looks at the first afterwards.
        self.is_closed.store(true, Ordering::Release);
        self.cancel();
    }
}

fn serve(
    mut writer: Writer,
    orders: &Receiver<Order>,
    reports: &SyncSender<Report>,
    (is_cancelled, is_closed): &(Arc<AtomicBool>, Arc<AtomicBool>),
) {
    while let Ok(order) = orders.recv() {
        is_cancelled.store(false, Ordering::Release);
        if is_closed.load(Ordering::Acquire) {
            return;
        }
        for report in writer.settle(vec![order], &Limit::new(LIMIT, is_cancelled)) {
            if reports.send(report).is_err() {
                return;
            }
        }
    }
}
