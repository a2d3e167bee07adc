"""GPUs in front of which ma_boot runs, with a fake of NVML's library: no machine here has one."""
