-- An example for sites: a job that says --comment=gpu-memory=30GiB, and asks for no GPU itself, gets the smallest type that holds it.
-- Set JobSubmitPlugins=lua in slurm.conf, and the table below to the cluster's types: what "memestimate gpus" or nvidia-smi says, in GiB.

local types = { -- the smallest first
	{ name = "rtx4090", gib = 23.6 },
	{ name = "a100-40", gib = 39.3 },
	{ name = "a100-80", gib = 79.1 },
}

function slurm_job_submit(job, partitions, uid)
	local gib = tonumber(string.match(job.comment or "", "gpu%-memory=(%d+%.?%d*)GiB"))
	if gib == nil or job.tres_per_node ~= nil then
		return slurm.SUCCESS
	end
	for _, t in ipairs(types) do
		if t.gib >= gib then
			job.tres_per_node = "gres:gpu:" .. t.name .. ":1"
			return slurm.SUCCESS
		end
	end
	slurm.log_user("no GPU of this cluster has %g GiB: the largest is %s with %g GiB", gib, types[#types].name, types[#types].gib)
	return slurm.ERROR
end

function slurm_job_modify(job, record, partitions, uid)
	return slurm.SUCCESS
end
