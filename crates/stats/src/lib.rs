//! What do many samples say together? Windows, percentiles, decaying histograms; no Kubernetes, no clock.
